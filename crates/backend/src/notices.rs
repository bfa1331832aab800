//! Messages for people about devices.
use std::fmt;
use std::sync::Arc;
use zonal_os::Notify;

/// Receives notices about devices, such as a connection that was lost. The default discards them.
#[derive(Clone)]
pub struct Notices(Notify);

impl Notices {
    /// Sends notices to `notify`.
    pub fn new(notify: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Notices(Arc::new(notify))
    }

    pub(crate) fn notify(&self, notice: &str) {
        (self.0)(notice);
    }

    pub(crate) fn with_prefix(&self, prefix: &'static str) -> Notify {
        let notify = Arc::clone(&self.0);
        Arc::new(move |notice| notify(&format!("{prefix}: {notice}")))
    }
}

impl Default for Notices {
    fn default() -> Self {
        Notices::new(|_| ())
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
