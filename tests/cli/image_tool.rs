//! `zonal image`: images shown, converted, copied and resized.
use crate::support::TestDir;
use serde_json::Value;

const PROFILE: &str =
    "--profile=null:zones=4,zone_size=1M,zone_capacity=768K,max_open=2,conventional=1";

/// A directory with an image `a.img` whose zones 1 and 2 have data, the first of them all it takes.
fn with_image() -> TestDir {
    let dir = TestDir::new();
    dir.zonal(&["create", "a.img", PROFILE]).expect_ok();
    let job = ["--name=w", "--rw=write", "--zonemode=zbd", "--bs=64k", "--offset=1z"];
    dir.zonal(&[&["run", "--device=a.img", "--io_size=896k"][..], &job].concat()).expect_ok();
    dir
}

fn json(dir: &TestDir, args: &[&str]) -> Value {
    serde_json::from_str(&dir.zonal(args).expect_ok()).expect("JSON")
}

fn report(dir: &TestDir, image: &str) -> String {
    dir.zonal(&["zone", "report", image]).expect_ok()
}

/// The data of an image.
fn data(dir: &TestDir, image: &str) -> Vec<u8> {
    let raw = format!("{image}.raw");
    dir.zonal(&["image", "convert", image, &raw]).expect_ok();
    std::fs::read(dir.path().join(raw)).expect("the raw file")
}

#[test]
fn raw_data_become_an_image_again_with_the_same_write_pointers() {
    let dir = with_image();
    let before = data(&dir, "a.img");
    assert_eq!(before.len(), 4 << 20, "each sector has its place");
    assert!(before[1 << 20..].iter().any(|&byte| byte != 0), "data were written");
    let ran = dir.zonal(&["image", "convert", "a.img.raw", "b.img"]);
    assert!(ran.code == 2 && ran.err.contains("expected --profile SPEC beside it"), "{}", ran.err);
    let convert = ["image", "convert", "a.img.raw", "b.img", PROFILE];
    assert!(dir.zonal(&convert).expect_ok().starts_with("a.img.raw: converted to b.img: "));
    assert_eq!(report(&dir, "b.img"), report(&dir, "a.img"));
    assert_eq!(data(&dir, "b.img"), before);
    let other = ["image", "convert", "a.img.raw", "c.img", "--profile=null:zones=2,zone_size=1M"];
    let ran = dir.zonal(&other);
    assert!(ran.code == 2 && ran.err.contains("found 4194304 bytes, expected"), "{}", ran.err);
    assert!(!dir.path().join("c.img").exists(), "what could not be made is removed");
}

#[test]
fn an_image_is_compressed_for_transport_and_comes_back_as_it_was() {
    let dir = with_image();
    let convert = |from: &str, to: &str| dir.zonal(&["image", "convert", from, to]);
    let told = convert("a.img", "a.img.zst").expect_ok();
    assert!(told.starts_with("a.img: compressed to a.img.zst: "), "{told}");
    convert("a.img.zst", "b.img").expect_ok();
    let file = |name: &str| std::fs::read(dir.path().join(name)).expect("a file");
    assert!(file("a.img") == file("b.img"), "each byte is the same");
    assert_eq!(report(&dir, "b.img"), report(&dir, "a.img"));

    let whole = file("a.img.zst");
    let cut = &whole[..whole.len() / 2];
    let junk = zstd::stream::encode_all(&b"no image"[..], 0).expect("it is compressed");
    for (content, why) in [(cut, "unpacking it to c.img"), (&junk[..], "found no image in it")] {
        std::fs::write(dir.path().join("c.img.zst"), content).expect("a file");
        let ran = convert("c.img.zst", "c.img");
        assert!(ran.code == 2 && ran.err.contains(why), "{}: {}", ran.code, ran.err);
        assert!(!dir.path().join("c.img").exists(), "what could not be made is removed");
    }
    for (from, to, expected) in [("a.img", "d.zst", "NAME.img.zst"), ("a.img.zst", "d", "NAME.img")]
    {
        let ran = convert(from, to);
        assert!(ran.code == 2 && ran.err.contains(expected), "{}: {}", ran.code, ran.err);
    }
}

#[test]
fn a_clone_has_an_identity_of_its_own_and_a_snapshot_that_of_the_image() {
    let dir = with_image();
    dir.zonal(&["image", "snapshot", "a.img", "s.img"]).expect_ok();
    dir.zonal(&["image", "clone", "a.img", "c.img"]).expect_ok();
    let before = data(&dir, "a.img");
    let uuid = |image: &str| json(&dir, &["image", "info", image, "--json"])["uuid"].clone();
    assert_eq!(uuid("s.img"), uuid("a.img"));
    assert_ne!(uuid("c.img"), uuid("a.img"));
    for copy in ["s.img", "c.img"] {
        assert_eq!(report(&dir, copy), report(&dir, "a.img"), "{copy}");
        assert_eq!(data(&dir, copy), before, "{copy}");
        dir.zonal(&["check", copy, "--data"]).expect_ok();
    }
}

#[test]
fn an_image_is_resized_unless_data_would_be_lost() {
    let dir = with_image();
    let zones = || json(&dir, &["image", "info", "a.img", "--json"])["geometry"]["zones"].clone();
    let before = report(&dir, "a.img");
    let ran = dir.zonal(&["image", "resize", "a.img", "--zones=2"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "zonal: --zones 2: zone 2 holds data, expected at least 3 zones\n")
    );
    let dry = dir.zonal(&["image", "resize", "a.img", "--zones=16", "--dry-run"]).expect_ok();
    assert_eq!((dry.as_str(), zones()), ("dry run: a.img: 16 zones instead of 4\n", 4.into()));
    dir.zonal(&["image", "resize", "a.img", "--zones=16"]).expect_ok();
    assert!(report(&dir, "a.img").starts_with(&before), "the zones that there were are the same");
    assert_eq!(zones(), 16);
    dir.zonal(&["image", "resize", "a.img", "--zones=3"]).expect_ok();
    assert_eq!(zones(), 3);
    assert!(before.starts_with(&report(&dir, "a.img")));
}

#[test]
fn what_an_image_is_is_told_without_reading_its_data() {
    let dir = with_image();
    let text = dir.zonal(&["image", "info", "a.img"]).expect_ok();
    for part in ["4 zones of 1MiB", "format version 4", "checksums of data: on", "profile null:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let info = json(&dir, &["image", "info", "a.img", "--format=json"]);
    assert_eq!(info["zones"]["written_bytes"], 896 << 10);
    assert_eq!(info["zones"]["conditions"]["full"], 1);
    assert_eq!(info["format_version"], 4);
    let checked = dir.zonal(&["check", "a.img"]).expect_ok();
    assert!(checked.contains("\nformat version 4\n"), "{checked}");
}

#[test]
fn files_that_are_there_and_files_that_are_no_images_are_refused() {
    let dir = with_image().with("plain", "no image").with("there.img", "");
    for (args, message) in [
        (&["image", "clone", "a.img", "there.img"][..], "there.img: found a file, expected none"),
        (&["image", "snapshot", "plain", "b.img"], "found no image"),
        (&["image", "info", "plain"], "image plain: "),
        (&["image", "convert", "plain", "b.raw"], "expected one of them to be an image NAME.img"),
        (&["image", "convert", "a.img", "b.img", PROFILE], "--profile: found it with an image"),
    ] {
        let ran = dir.zonal(args);
        assert!(ran.code == 2 && ran.err.contains(message), "{args:?}: {}", ran.err);
        assert!(!dir.path().join("b.img").exists(), "{args:?}");
    }
}

#[test]
fn a_dry_run_says_what_would_be_lost_and_loses_nothing() {
    let dir = with_image();
    let before = report(&dir, "a.img");
    let said = dir.zonal(&["zone", "reset", "a.img", "--dry-run"]).expect_ok();
    assert_eq!(said, "dry run: a.img: reset zones 0 to 3: 2 held data, 896KiB, which are gone\n");
    assert_eq!(report(&dir, "a.img"), before);
}
