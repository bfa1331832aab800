//! Reads that the drive completes together.
use crate::model::{channel, new_image, open, run};
use zonal_blk::{Bio, Buf, Nanos, Sector, Status, Wake};

#[test]
fn the_first_of_reads_that_complete_together_reach_the_user_before_the_others_are_verified() {
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    let data = Buf::from(&vec![7; 64 * 512][..]);
    assert_eq!(run(&mut io, Bio::write(Sector(0), data, 0)), Status::Ok);
    let (rounds, mut polls) = (50, 0);
    for _ in 0..rounds {
        for at in 0..8 {
            io.submit(Nanos(0), Bio::read(Sector(at * 8), 8, at));
        }
        let mut completions = Vec::new();
        while io.outstanding() > 0 {
            assert_ne!(io.next_event(), Wake::Idle);
            io.poll(Nanos(0), &mut completions);
            polls += 1;
        }
        completions.sort_by_key(|completion| completion.user_data);
        for (at, completion) in (0..).zip(&completions) {
            assert_eq!((completion.user_data, completion.status), (at, Status::Ok));
            assert!(completion.buf.as_ref().unwrap().iter().all(|&byte| byte == 7));
        }
        assert_eq!(completions.len(), 8);
    }
    // The file completes most of them immediately. If all were finished then, a poll would be enough.
    assert!(polls > 2 * rounds, "{polls} polls");
}
