//! The devices of a run as a page shows them: while it runs, or recorded.
use crate::check_writable;
use crate::devices::Devices;
use crate::progress::{JobProgress, PhaseProgress};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::Nanos;
use zonal_serve::watched;
use zonal_serve::web::{MAX_CELLS, Recorder, SampleClock, Sampler};

/// Steps of virtual time between two looks at the clock: a frame is due after milliseconds, in which
/// a disk does few I/Os.
const STEPS: u64 = 16;
/// Looks at the clock between two updates of what the terminal shows.
const LOOKS_PER_UPDATE: u64 = zonal_sim::STEPS_PER_WATCH / STEPS;

/// A run that is being recorded.
pub struct ViewRecording(Arc<Mutex<State>>);

struct State {
    /// `None` once it has ended.
    recorder: Option<Recorder>,
    last: Nanos,
    path: PathBuf,
}

impl ViewRecording {
    /// Records all devices from now on, to be written to a file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start(devices: &Devices, path: &Path) -> Result<Self> {
        let context = || format!("--record-view {}", path.display());
        check_writable(path).with_context(context)?;
        let sampler = |watched| Sampler::new(watched, MAX_CELLS, SampleClock::Device);
        let recorder = Recorder::start(watched(devices.iter()).into_iter().map(sampler).collect());
        let state = State { recorder: Some(recorder), last: Nanos(0), path: path.to_owned() };
        Ok(ViewRecording(Arc::new(Mutex::new(state))))
    }

    /// Progress that makes the recording while jobs run. Passes everything on to `inner`.
    pub fn progress(&self, inner: Box<dyn JobProgress>) -> Box<dyn JobProgress> {
        Box::new(RecordingProgress { inner, state: Arc::clone(&self.0), begin: Nanos(0), looks: 0 })
    }

    /// Ends the recording, and writes it to its file. `arguments` are those of the command line: the
    /// title.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, arguments: impl Iterator<Item = String>, clock: &str) -> Result<()> {
        let quoted = |word: String| shlex::try_quote(&word).map_or(word.clone(), Into::into);
        let words: Vec<String> = arguments.map(quoted).collect();
        let title = format!("zonal {}", words.join(" "));
        let mut state = lock(&self.0);
        let Some(recorder) = state.recorder.take() else { return Ok(()) };
        let recording = recorder.finish(state.last, title, clock);
        let written = recording.write(&state.path);
        written.with_context(|| format!("--record-view {}", state.path.display()))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no thread panics while it records")
}

struct RecordingProgress {
    inner: Box<dyn JobProgress>,
    state: Arc<Mutex<State>>,
    /// When the phase began.
    begin: Nanos,
    looks: u64,
}

impl JobProgress for RecordingProgress {
    fn start(&mut self, phase: PhaseProgress) {
        self.begin = phase.begin;
        self.inner.start(phase);
    }

    fn update(&mut self, elapsed: Nanos) {
        let now = self.begin + elapsed;
        let mut state = lock(&self.state);
        state.last = now;
        if let Some(recorder) = &mut state.recorder {
            recorder.observe(now);
        }
        self.looks += 1;
        if self.looks % LOOKS_PER_UPDATE == 1 {
            self.inner.update(elapsed);
        }
    }

    fn finish(&mut self) {
        self.inner.finish();
    }

    fn has_one_clock(&self) -> bool {
        true
    }

    fn steps(&self) -> u64 {
        STEPS
    }
}
