//! Logs of a run in its folder.

use std::path::Path;

use pronk_metrics::{Csv, HtmlReport, JsonLines, ReportError, TensorBoard};
use serde_json::{Value, json};

use super::handle::Trainer;
use crate::run_folder;

impl Trainer {
    /// Logs the run to `folder`, which is made if it is missing.
    ///
    /// | file | holds |
    /// |---|---|
    /// | `results.jsonl` | every result, one JSON object a line |
    /// | `progress.csv` | the numbers of every result, one row each |
    /// | `events.out.tfevents.…` | the same for TensorBoard, which is pointed to the folder |
    /// | `report.html` | the whole run on one page, written as it ends |
    ///
    /// [`Timers`](crate::Timers) and [`Timeline`](crate::Timeline) are separate: they need the program's
    /// subscriber.
    ///
    /// A folder belongs to one run: [`RunFolder`](crate::RunFolder) makes one per run, or reuses one.
    ///
    /// # Errors
    /// The folder holds a run, or a file cannot be made; the error names it. A log that fails later is
    /// dropped and named in the results.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    /// trainer.log_to(folder.path())?;
    /// trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert_eq!(std::fs::read_to_string(folder.path().join("results.jsonl"))?.lines().count(), 2);
    /// assert!(folder.path().join("report.html").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log_to(&mut self, folder: impl AsRef<Path>) -> Result<(), ReportError> {
        let folder = folder.as_ref();
        run_folder::claim(folder).map_err(|error| ReportError::new("log_to", error))?;
        let settings = self.settings();
        let text = format!("```json\n{settings:#}\n```");
        self.add_reporter(JsonLines::create(folder.join(run_folder::RESULTS))?);
        self.add_reporter(Csv::create(folder.join("progress.csv"))?);
        self.add_reporter(TensorBoard::create(folder)?.with_text("settings", &text)?);
        self.add_reporter(HtmlReport::create(folder.join("report.html"))?.with_settings(settings));
        Ok(())
    }

    /// The environment and the settings of the run.
    fn settings(&self) -> Value {
        // Settings always serialise; an error would only omit them.
        let config = serde_json::to_value(&self.config).unwrap_or_default();
        let mut settings = json!({ "env": self.spec.env });
        if let (Value::Object(settings), Value::Object(config)) = (&mut settings, config) {
            settings.extend(config);
        }
        settings
    }
}
