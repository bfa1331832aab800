//! Names of images: `disk.img`, `image:any/path`, either with `:latency=model` after it.
use std::str::FromStr;

/// The end of an image's name that has no prefix.
const SUFFIX: &str = ".img";
const PREFIX: &str = "image:";

/// Where an image's latencies come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// A command takes as long as its I/O to the file.
    #[default]
    None,
    /// A command takes at least as long as on the drive that the profile describes.
    Model,
}

/// The name of an image, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// The file.
    pub path: String,
    /// Where its latencies come from.
    pub latency: Latency,
}

/// The options, for errors.
const LATENCIES: &str = "latency=none or latency=model";

/// Why a name is not that of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has neither the prefix nor the end.
    #[error("found `{0}`, expected a file NAME.img or image:PATH")]
    NotAnImage(String),
    /// There is no such option.
    #[error("found option `{0}`, expected {LATENCIES}{hint}", hint = zonal_blk::did_you_mean_of(.0, LATENCIES))]
    Option(String),
}

/// Splits a name into path and options; `None` if it is not that of an image.
fn split(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(PREFIX);
    // Options follow the last colon and have a `=` and no `/`.
    let (path, options) = match rest.unwrap_or(name).rsplit_once(':') {
        Some((path, options)) if options.contains('=') && !options.contains('/') => (path, options),
        _ => (rest.unwrap_or(name), ""),
    };
    let is_image = rest.is_some() || (path.ends_with(SUFFIX) && !path.contains("://"));
    (is_image && !path.is_empty()).then_some((path, options))
}

impl ImageName {
    /// Whether this is the name of an image and not of another device.
    pub fn is_image_name(name: &str) -> bool {
        split(name).is_some()
    }

    /// The name of the image in a file.
    pub fn of_path(path: &str) -> String {
        let plain = split(path).is_some_and(|(found, options)| found == path && options.is_empty());
        if plain { path.to_owned() } else { format!("{PREFIX}{path}") }
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let (path, options) = split(name).ok_or_else(|| NameError::NotAnImage(name.to_owned()))?;
        let mut latency = Latency::None;
        for option in options.split(',').filter(|_| !options.is_empty()) {
            latency = match option.trim() {
                "latency=none" => Latency::None,
                "latency=model" => Latency::Model,
                _ => return Err(NameError::Option(option.trim().to_owned())),
            };
        }
        Ok(ImageName { path: path.to_owned(), latency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str) -> Result<(String, Latency), NameError> {
        name.parse().map(|name: ImageName| (name.path, name.latency))
    }

    #[test]
    fn names_of_images_differ_from_those_of_other_devices() {
        let plain = |path: &str| Ok((path.to_owned(), Latency::None));
        assert_eq!(read("disk.img"), plain("disk.img"));
        assert_eq!(read("/a/b c/disk.img"), plain("/a/b c/disk.img"));
        assert_eq!(read("image:/dev/shm/x"), plain("/dev/shm/x"));
        assert_eq!(read("image:C:/x"), plain("C:/x"));
        let model = |path: &str| Ok((path.to_owned(), Latency::Model));
        assert_eq!(read("disk.img:latency=model"), model("disk.img"));
        assert_eq!(read("image:x:latency=none,latency=model"), model("x"));
        for other in ["null", "null:zones=4", "a.toml", "/dev/sda", "image:", ".img.toml", ""] {
            assert_eq!(read(other), Err(NameError::NotAnImage(other.to_owned())));
        }
        assert!(!ImageName::is_image_name("nvme-tcp://host:1/nqn.img"));
        assert_eq!(
            read("disk.img:latency=2ms").unwrap_err().to_string(),
            "found option `latency=2ms`, expected latency=none or latency=model"
        );
        for (option, near) in [("latency=modle", "model"), ("latencey=none", "latency")] {
            let error = read(&format!("disk.img:{option}")).unwrap_err().to_string();
            assert!(error.ends_with(&format!(", did you mean `{near}`?")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_name_of_a_path_leads_to_the_path(path in "[a-z./: =]{1,12}(\\.img)?") {
            let name = ImageName::of_path(&path);
            if let Ok(read) = name.parse::<ImageName>() {
                // A path that ends like options has no name without options.
                let bare = !path.rsplit_once(':').is_some_and(|(_, end)| end.contains('='));
                prop_assert!(read.path == path || !bare, "{name} leads to {read:?}");
            }
        }
    }
}
