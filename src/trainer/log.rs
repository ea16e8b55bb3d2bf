//! Logs of a run in its folder.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use pronk_metrics::{
    Csv, FileMark, HtmlReport, JsonLines, ReportError, Reporter, ResultDict, TensorBoard, write_whole,
};
use serde_json::{Value, json};

use super::handle::Trainer;
use crate::config::as_toml;
use crate::run_folder;
use crate::run_info::{BY_LOG_TO, RunInfo, RunInfoError, is_by_log_to};

impl Trainer {
    /// Logs the run to `folder`, which is made if it is missing.
    ///
    /// | file | holds |
    /// |---|---|
    /// | `results.jsonl` | every result, one JSON object a line |
    /// | `progress.csv` | the numbers of every result, one row each |
    /// | `events.out.tfevents.…` | the same for TensorBoard, which is pointed to the folder |
    /// | `report.html` | the whole run on one page, written as it ends |
    /// | `run.json` | where the run goes on, and how it ended: [`RunInfo`] |
    /// | `config.toml` | the environment's name and the settings, unless the program has written one there |
    ///
    /// So `pronk compare` and `pronk watch` know the run, and `pronk evaluate` does if its policy is
    /// [saved](crate::Run::save) there too and the program `pronk` has its environment.
    ///
    /// [`Timers`](crate::Timers) and [`Timeline`](crate::Timeline) are separate: they need the program's
    /// subscriber.
    ///
    /// A folder belongs to one run: [`RunFolder`](crate::RunFolder) makes one per run, or reuses one. A
    /// [resumed](crate::TrainerBuilder::resume) run continues its own logs without gap or repeat; what the killed
    /// process has logged after the checkpoint is kept in files such as `results.jsonl.life-1`.
    ///
    /// # Errors
    /// The folder holds a run, or a file cannot be made; the error names it. A log that fails later is named
    /// in the results and in [`Run::log_failure`](crate::Run::log_failure): it is tried again with each result,
    /// such as on a disk that was full, and how many it misses is counted.
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
        let folder = &*run_folder::resolved(folder.as_ref());
        self.log_results(folder)?;
        self.write_settings(&folder.join(run_folder::SETTINGS))?;
        let info = RunInfo::begin(folder, &self.spec.env, self.config.seed);
        self.info.push(info.map_err(|RunInfoError { path, cause }| unwritten(&path, cause))?);
        Ok(())
    }

    /// What [`log_to`](Self::log_to) has begun as `run.json`, for a program that completes the file by
    /// [`RunInfo::end`], for example once it has saved the policy. That of the newest folder, or `None` if
    /// the run logs to no folder, or if it was taken before.
    pub fn take_run_info(&mut self) -> Option<RunInfo> {
        self.info.pop()
    }

    fn log_results(&mut self, folder: &Path) -> Result<(), ReportError> {
        let settings = self.settings();
        let results = folder.join(run_folder::RESULTS);
        let mark = self.mark_of(|file| file == run_folder::RESULTS).filter(|_| results.exists());
        let mark = mark.filter(|mark| self.is_own_log(&results, mark.bytes));
        let Some(mark) = mark else {
            if self.goes_on {
                // Of a process that was killed before its first checkpoint, or of another run.
                run_folder::move_aside(folder).map_err(|error| ReportError::new("log_to", error))?;
            }
            run_folder::claim(folder).map_err(|error| ReportError::new("log_to", error))?;
            let text = format!("```json\n{settings:#}\n```");
            self.add_reporter(JsonLines::create(results)?);
            self.add_reporter(Csv::create(folder.join(run_folder::TABLE))?);
            self.add_reporter(TensorBoard::create(folder)?.with_text("settings", &text)?);
            self.add_reporter(HtmlReport::create(folder.join(run_folder::REPORT))?.with_settings(settings));
            return Ok(());
        };
        self.go_on_logging(folder, &mark, settings)
    }

    /// Continues the logs of the resumed run: results after the checkpoint are moved aside, and the table and
    /// the report are made again from those before it.
    fn go_on_logging(&mut self, folder: &Path, mark: &FileMark, settings: Value) -> Result<(), ReportError> {
        let tail_of = |name: &str| run_folder::first_free_tail(folder, name);
        let path = folder.join(run_folder::RESULTS);
        let results = JsonLines::resume(&path, mark.bytes, || tail_of(run_folder::RESULTS))?;
        let table = folder.join(run_folder::TABLE);
        let unread = |error: std::io::Error| ReportError::new("log_to", error);
        let lines = BufReader::new(File::open(&path).map_err(unread)?).lines();
        let mut csv = Csv::create(table.with_extension("csv.new"))?;
        let mut report = HtmlReport::create(folder.join(run_folder::REPORT))?.with_settings(settings);
        let mut env_steps = 0;
        for line in lines {
            let Some(result) = ResultDict::from_json_line(&line.map_err(unread)?) else { continue };
            csv.report(&result)?;
            report.report(&result)?;
            env_steps = result.get("num_env_steps_sampled").and_then(Value::as_i64).unwrap_or(env_steps);
        }
        csv.take_place_of(&table, || tail_of(run_folder::TABLE))?;
        self.add_reporter(results);
        self.add_reporter(csv);
        let events = self.mark_of(|file| file.starts_with(run_folder::EVENTS));
        self.add_reporter(match events.map(|mark| (folder.join(mark.file), mark.bytes)) {
            // Steps after those of the checkpoint were never made.
            Some((path, bytes)) if path.exists() => {
                TensorBoard::resume(path, bytes, || tail_of("events"), env_steps + 1)?
            }
            _ => TensorBoard::create(folder)?,
        });
        self.add_reporter(report);
        Ok(())
    }

    /// Writes the settings as a config file of the program `pronk`, unless there is one that another hand has
    /// written.
    fn write_settings(&self, path: &Path) -> Result<(), ReportError> {
        if path.symlink_metadata().is_ok() && !is_by_log_to(path) {
            return Ok(());
        }
        let mut settings = self.settings();
        // Beside a schedule it has no effect, and the program would refuse it.
        if self.config.learner.lr_schedule.is_some()
            && let Some(learner) = settings["learner"].as_object_mut()
        {
            learner.remove("lr");
        }
        let text = format!("{BY_LOG_TO}{}", as_toml(&settings));
        write_whole(path, text.as_bytes()).map_err(|error| unwritten(path, error))
    }

    /// Whether the results that end with the first `bytes` of a log are those of the checkpoint. A log that
    /// is too short may be: going on with it says so.
    fn is_own_log(&self, path: &Path, bytes: u64) -> bool {
        let Ok(log) = File::open(path) else { return true };
        if log.metadata().is_ok_and(|metadata| metadata.len() < bytes) {
            return true;
        }
        let last = BufReader::new(log.take(bytes)).lines().map_while(Result::ok).last();
        let result = last.and_then(|line| ResultDict::from_json_line(&line));
        let iteration = result.and_then(|result| result.get("training_iteration")?.as_u64());
        // The log may have missed the last ones, such as on a full disk.
        iteration.is_some_and(|last| self.resumed.as_ref().is_some_and(|resumed| last <= resumed.from_iteration))
    }

    fn mark_of(&self, is_it: impl Fn(&str) -> bool) -> Option<FileMark> {
        self.resumed.as_ref()?.marks.iter().find(|mark| is_it(&mark.file)).cloned()
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

fn unwritten(path: &Path, error: std::io::Error) -> ReportError {
    ReportError::of_file("log_to", "write", path, error)
}
