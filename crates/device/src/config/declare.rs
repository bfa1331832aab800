//! The declaration of a device's options: one entry each makes the field, its default, its help and
//! its check.

/// Declares a kind of device: its name, the type of the device, the profiles, the option that makes a
/// device zoned and the one that makes it regular; then the configuration, whose entries are
///
/// ```text
/// /// More than the help says, for readers of the source.
/// Zoned zones: u32 = Count("4096") in 1..=MAX_ZONES, "number of zones";
/// ```
///
/// with the [`Scope`](super::Scope), the field's name and type, which is an
/// [`OptionValue`](super::OptionValue), the [`Unit`](super::Unit) with the default as it is written in
/// a spec, the range of numbers if the type holds others, and the help. `Words` stands for the words
/// of an [`option_words!`] type. A field of type `Option` has its default in words and is `None`
/// unless it is given.
///
/// `memory` is added to each kind, and `written` to each that can have zones; a kind that cannot says
/// `without zones` in place of its scopes. Each kind has to declare `lba`.
macro_rules! device_options {
    (
        $kind:literal: $device:ty, profiles $profiles:tt, scopes $scopes:expr;
        $(#[$outer:meta])* pub struct $config:ident { $($entries:tt)* }
    ) => {
        $crate::config::device_options! {
            @kind $kind: $device, $profiles, $scopes, $config
        }
        $crate::config::device_options! {
            @all $device, $(#[$outer])* $config {
                $($entries)*
                Any memory: bool = Flag("false"), "whether data are kept, in memory";
                Zoned written: $crate::config::WrittenZones = Zones("0%"),
                    "zones that are written to their end, such as 100% or 0-99+200";
            }
        }

        impl $config {
            fn written_zones(&self) -> &$crate::config::WrittenZones {
                &self.written
            }
        }
    };
    (
        $kind:literal: $device:ty, profiles $profiles:tt, without zones;
        $(#[$outer:meta])* pub struct $config:ident { $($entries:tt)* }
    ) => {
        $crate::config::device_options! {
            @kind $kind: $device, $profiles, ["", ""], $config
        }
        $crate::config::device_options! {
            @all $device, $(#[$outer])* $config {
                $($entries)*
                Any memory: bool = Flag("false"), "whether data are kept, in memory";
            }
        }

        impl $config {
            fn written_zones(&self) -> &$crate::config::WrittenZones {
                &$crate::config::WrittenZones::NONE
            }
        }
    };
    (@kind $kind:literal: $device:ty, [$($profile:literal),*], $scopes:expr, $config:ident) => {
        pub(crate) static KIND: $crate::config::DeviceKind = $crate::config::DeviceKind {
            name: $kind,
            options: $config::OPTIONS,
            profiles: &[$(($profile, include_str!(concat!("../../profiles/", $profile, ".toml")))),*],
            scopes: $scopes,
            default: || Box::new($config::default()),
        };
    };
    (@all $device:ty, $(#[$outer:meta])* $config:ident {
        $(
            $(#[$doc:meta])*
            $scope:ident $name:ident: $type:ty = $unit:ident($default:literal)
                $(in $range:expr)?, $help:literal;
        )*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $config {
            $(
                #[doc = $help]
                $(#[$doc])*
                pub $name: $type,
            )*
        }

        impl $config {
            /// The options, in the order of the help text.
            pub const OPTIONS: &'static [$crate::config::OptionInfo] = &[$(
                $crate::config::OptionInfo {
                    name: stringify!($name),
                    unit: $crate::config::device_options!(@unit $unit $type),
                    default: $default,
                    scope: $crate::config::Scope::$scope,
                    help: $help,
                    range: $crate::config::device_options!(@range $($range)?),
                },
            )*];
        }

        /// No option is given.
        impl Default for $config {
            fn default() -> Self {
                use $crate::config::OptionValue;
                $config {
                    $($name: OptionValue::by_default(
                        $crate::config::device_options!(@unit $unit $type),
                        $default,
                    ),)*
                }
            }
        }

        impl $crate::config::Options for $config {
            fn kind(&self) -> &'static $crate::config::DeviceKind {
                &KIND
            }

            fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::config::ValueError> {
                use $crate::config::OptionValue;
                match name {
                    $(stringify!($name) => {
                        let unit = $crate::config::device_options!(@unit $unit $type);
                        self.$name = OptionValue::parse(unit, text)?;
                    })*
                    _ => panic!("no option {name}"),
                }
                Ok(())
            }

            fn get(&self, name: &str) -> Option<u64> {
                use $crate::config::OptionValue;
                match name {
                    $(stringify!($name) => self.$name.number(),)*
                    _ => None,
                }
            }

            fn keeps_data(&self) -> bool {
                self.memory
            }

            fn written(&self) -> &$crate::config::WrittenZones {
                self.written_zones()
            }

            fn validate(&self) -> Result<(), $crate::config::ConfigError> {
                $config::validate(self)
            }

            fn limits(&self) -> Result<zonal_blk::Limits, $crate::config::ConfigError> {
                $config::limits(self)
            }

            fn build(&self) -> Result<
                std::sync::Arc<dyn $crate::control::DeviceControl>,
                $crate::config::ConfigError,
            > {
                Ok($crate::storage::with_written(<$device>::new(self)?, self.written_zones()))
            }

            fn boxed(&self) -> Box<dyn $crate::config::DeviceConfig> {
                Box::new(self.clone())
            }

            fn equals(&self, other: &dyn $crate::config::DeviceConfig) -> bool {
                let other: &dyn std::any::Any = other;
                other.downcast_ref() == Some(self)
            }
        }
    };
    (@unit Words $type:ty) => { $crate::config::Unit::Choice(<$type>::WORDS) };
    (@unit $unit:ident $type:ty) => { $crate::config::Unit::$unit };
    (@range) => { 0..=u64::MAX };
    (@range $range:expr) => { $range };
}

/// Declares an enum whose variants are the words that an option can have.
macro_rules! option_words {
    ($(#[$outer:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];
            const ALL: &'static [$name] = &[$($name::$variant,)*];
        }

        impl $crate::config::OptionValue for $name {
            const MAX: u64 = Self::ALL.len() as u64 - 1;

            fn from_number(number: u64) -> Self {
                usize::try_from(number).ok().and_then(|at| Self::ALL.get(at).copied())
                    .expect("at most MAX")
            }

            fn number(&self) -> Option<u64> {
                Some(*self as u64)
            }
        }
    };
}

pub(crate) use {device_options, option_words};
