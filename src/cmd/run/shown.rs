//! The views of a run's devices: a page and the terminal while the jobs run, a recording afterwards.
use super::RunArgs;
#[cfg(feature = "top")]
use crate::cmd::top::RunScreen;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use zonal_lab::executor::ClockKind;
use zonal_lab::run::{Run, ViewRecording};
#[cfg(feature = "top")]
use zonal_serve::control::DeviceManager;
use zonal_serve::web::WebServer;

/// Whether the devices are shown in the terminal.
pub fn in_terminal(args: &RunArgs) -> bool {
    #[cfg(feature = "top")]
    return args.top;
    #[cfg(not(feature = "top"))]
    return false;
}

/// Checks that what is to be shown can be watched.
///
/// # Errors
/// The clock is not real, or the terminal is none.
pub fn check(args: &RunArgs, clock: ClockKind) -> Result<()> {
    let watched = [("--web", args.web.is_some()), ("--top", in_terminal(args))];
    if let Some((option, _)) = watched.iter().find(|(_, wanted)| *wanted)
        && clock == ClockKind::Virtual
    {
        bail!(
            "{option}: found --clock virtual, whose time nobody can watch; expected --clock real, or \
             --record-view FILE and then `zonal view FILE`"
        );
    }
    #[cfg(feature = "top")]
    if args.top {
        RunScreen::check()?;
    }
    Ok(())
}

/// The views of the devices.
pub struct Shown {
    /// The recording of the run.
    pub recording: Option<ViewRecording>,
    page: Option<WebServer>,
    #[cfg(feature = "top")]
    screen: Option<RunScreen>,
}

impl Shown {
    /// Begins to show them.
    ///
    /// # Errors
    /// The page cannot be served, the file cannot be created, or the terminal cannot be used.
    pub fn start(args: &RunArgs, run: &Run) -> Result<Self> {
        let devices = run.devices();
        let record = |file: &PathBuf| ViewRecording::start(devices, file);
        let show_page = |address| {
            let server = WebServer::start(address, zonal_serve::watched(devices.iter()), None)
                .with_context(|| format!("--web {address}"))?;
            tracing::info!("{}", server.url());
            Ok::<_, anyhow::Error>(server)
        };
        Ok(Shown {
            recording: args.record_view.as_ref().map(record).transpose()?,
            page: args.web.map(show_page).transpose()?,
            #[cfg(feature = "top")]
            screen: if args.top {
                let managed = devices.iter().filter_map(zonal_serve::managed).collect();
                Some(RunScreen::start(DeviceManager::new(managed, Vec::new()))?)
            } else {
                None
            },
        })
    }

    /// Runs the jobs. Afterwards the terminal is for the report.
    pub fn during<T>(&mut self, jobs: impl FnOnce() -> T) -> T {
        let done = jobs();
        #[cfg(feature = "top")]
        drop(self.screen.take());
        done
    }

    /// Writes the recording to its file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self, clock: ClockKind) -> Result<()> {
        if let Some(recording) = self.recording {
            recording.finish(std::env::args().skip(1), clock.name())?;
        }
        drop(self.page);
        Ok(())
    }
}
