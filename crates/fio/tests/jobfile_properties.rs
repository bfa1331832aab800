//! The parser never panics, and parses what it formats.
use proptest::prelude::*;
use zonal_fio::job::Extent;
use zonal_fio::jobfile::{MemoryEnvironment, parse_args, parse_str};
use zonal_fio::options::{FioOption, format_size, supported};

fn env() -> MemoryEnvironment {
    MemoryEnvironment::default()
        .with_file("inc.fio", "bs=8k\ninclude t.fio\n")
        .with_variable("X", "$pagesize*")
}

/// Text that looks like a value: what each kind of value is made of, in any order.
fn value() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("4k"),
        Just("-"),
        Just("+"),
        Just("*"),
        Just("/"),
        Just("%"),
        Just("^"),
        Just("("),
        Just(")"),
        Just("0x"),
        Just("z"),
        Just(","),
        Just(":"),
        Just("9999999999999999999"),
        Just("rand"),
        Just("read"),
        Just("ms"),
        Just("iops_slope"),
        Just("zipf"),
        Just("zoned"),
        Just("50"),
        Just(".5"),
        Just("$ncpus"),
        Just("${X}"),
        Just(" "),
        Just("é"),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = supported().flat_map(|spec| spec.names()).collect();
    prop::sample::select(names)
}

proptest! {
    #[test]
    fn any_text_gives_jobs_or_an_error(text in any::<String>()) {
        let _ = parse_str("t.fio", &text, &env());
        let _ = parse_str("t.fio", &format!("[a]\n{text}"), &env());
    }

    #[test]
    fn any_lines_give_jobs_or_an_error(
        lines in prop::collection::vec((name(), value()), 0..6)
    ) {
        let mut text = "[global]\ninclude inc.fio\n[a]\n".to_owned();
        for (name, value) in &lines {
            text.push_str(&format!("{name}={value}\n"));
        }
        let _ = parse_str("u.fio", &text, &env());
    }

    #[test]
    fn any_value_of_any_option_is_parsed_or_rejected(name in name(), value in value()) {
        let text = format!("[a]\n{name}={value}\n");
        if let Err(error) = parse_str("t.fio", &text, &env()) {
            prop_assert!(error.to_string().starts_with("t.fio:"), "{error}");
        }
    }

    #[test]
    fn any_arguments_give_jobs_or_an_error(args in prop::collection::vec(".{0,12}", 0..6)) {
        let _ = parse_args(&args, &env());
    }

    #[test]
    fn formatted_sizes_parse_to_the_same_size(bytes in any::<u64>(), shift in 0_u32..64) {
        let bytes = bytes << shift;
        let text = format!("[a]\noffset={}\n", format_size(bytes));
        let set = parse_str("t.fio", &text, &env()).expect("a size");
        prop_assert_eq!(set.jobs[0].offset, Extent::Bytes(bytes));
    }

    #[test]
    fn own_options_make_the_same_job_again(
        depth in 1_u32..1000, bs in 1_u64..1 << 20, percent in 0_u8..=100, mix in 0_u8..=100,
    ) {
        let text = format!(
            "[a]\niodepth={depth}\nbs={bs}\noffset={percent}%\nrwmixread={mix}\nnorandommap\n"
        );
        let first = parse_str("t.fio", &text, &env()).expect("a job");
        let mut again = "[a]\n".to_owned();
        for (name, value) in &first.jobs[0].own_options {
            again.push_str(&format!("{name}={value}\n"));
        }
        prop_assert_eq!(parse_str("t.fio", &again, &env()).expect("a job"), first);
    }
}

#[test]
fn every_name_is_found() {
    for spec in supported() {
        for name in spec.names() {
            let found = zonal_fio::options::find(name);
            assert!(matches!(found, Some(FioOption::Supported(found)) if found.name == spec.name));
        }
    }
}
