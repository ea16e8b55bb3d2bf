//! A header that has been checked: what the columns of a frame are.

use pronk_buffer::{BatchError, BatchShape, ObsKind, Tag};
use pronk_metrics::{NormalizerMoments, PolicyId};
use pronk_policy::Space;

use super::super::error::FrameError;
use super::super::expected::{EnvSteps, Expected, Sender};
use super::super::header::{Head, Moments, Place, PolicyHead, Run, cells, column_bytes, obs_bytes};
use super::super::reader::Reader;
use super::moments::check_moments;

/// As much of the name of an unknown policy as an error repeats, in characters.
const SHOWN: usize = 40;

/// A fragment inside the bounds, without its columns.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) env_steps: u64,
    pub(super) policies: Vec<PolicyPlan<'a>>,
    pub(super) moments: Vec<NormalizerMoments>,
}

/// A policy of it.
#[derive(Debug)]
pub(super) struct PolicyPlan<'a> {
    pub(super) id: &'a PolicyId,
    pub(super) action: &'a Space,
    pub(super) shape: BatchShape,
    pub(super) packed: Option<usize>,
    pub(super) tags: Vec<Tag>,
    pub(super) finals: Vec<Place>,
    pub(super) runs: Vec<Run>,
}

impl<'a> Plan<'a> {
    /// Reads a header. Takes memory for lists only once their lengths are inside the bounds.
    pub(super) fn read(header: &[u8], expected: &'a Expected, sender: &Sender) -> Result<Self, FrameError> {
        let mut header = Reader::new(header);
        let head: Head = header.value("its beginning")?;
        let n_policies = expected.policies.len();
        match head.policies {
            0 => return Err(FrameError::Empty(BatchError::Empty { what: "a fragment" })),
            got if got > n_policies => return Err(FrameError::TooManyPolicies { max: n_policies, got }),
            _ => {}
        }
        let mut policies: Vec<PolicyPlan<'a>> = Vec::with_capacity(head.policies);
        for _ in 0..head.policies {
            let policy = PolicyPlan::read(&mut header, expected, sender)?;
            if let Some(previous) = policies.last().filter(|previous| previous.id >= policy.id) {
                return Err(FrameError::PolicyOrder { previous: previous.id.clone(), policy: policy.id.clone() });
            }
            policies.push(policy);
        }
        check_env_steps(head.env_steps, expected, &policies)?;

        let n_tags = policies.iter().map(|policy| policy.tags.len()).sum();
        if head.moments > n_tags {
            return Err(FrameError::MomentsCount { max: n_tags, got: head.moments });
        }
        let mut moments = Vec::new();
        for _ in 0..head.moments {
            moments.push(check_moments(header.value::<Moments<'_>>("moments")?, expected)?);
        }
        match header.len() {
            0 => Ok(Self { env_steps: head.env_steps, policies, moments }),
            surplus => Err(FrameError::Surplus { surplus }),
        }
    }

    /// Bytes of all columns. They do not overflow: those of the largest fragment do not.
    pub(super) fn column_bytes(&self) -> usize {
        let of_policy = |policy: &PolicyPlan<'_>| column_bytes(&policy.shape, policy.packed, policy.finals.len());
        self.policies.iter().filter_map(of_policy).sum()
    }
}

impl<'a> PolicyPlan<'a> {
    fn read(header: &mut Reader<'_>, expected: &'a Expected, sender: &Sender) -> Result<Self, FrameError> {
        let head: PolicyHead<'_> = header.value("a policy")?;
        let unknown = || FrameError::UnknownPolicy {
            expected: expected.policies.keys().cloned().collect(),
            got: head.id.chars().take(SHOWN).collect(),
        };
        let (id, policy) = expected.policy(head.id).ok_or_else(unknown)?;
        check_shape(id, policy.shape(), &head.shape)?;
        let packed = check_packed(id, &head)?;

        let columns = head.shape.columns;
        if head.tags == 0 || head.tags > columns {
            return Err(FrameError::TagCount { policy: id.clone(), columns, got: head.tags });
        }
        let max = cells(&head.shape);
        if head.finals > max {
            return Err(FrameError::FinalCount { policy: id.clone(), max, got: head.finals });
        }
        if head.runs > max {
            return Err(FrameError::VersionCount { policy: id.clone(), expected: max, runs: head.runs, got: 0 });
        }
        let tags = header.values(head.tags, "tags")?;
        check_tags(id, &tags, expected.life, sender)?;
        let finals = header.values(head.finals, "places of final observations")?;
        let runs = header.values(head.runs, "versions")?;
        check_runs(id, &runs, max, sender)?;
        Ok(Self { id, action: policy.action(), shape: head.shape, packed, tags, finals, runs })
    }

    /// `(t, b)` of a cell.
    pub(super) fn place(&self, cell: usize) -> (usize, usize) {
        (cell / self.shape.columns, cell % self.shape.columns)
    }

    /// The error of samples that break a rule of all batches.
    pub(super) fn invalid(&self, cause: BatchError) -> FrameError {
        FrameError::Samples { policy: self.id.clone(), cause }
    }
}

fn check_shape(id: &PolicyId, expected: &BatchShape, got: &BatchShape) -> Result<(), FrameError> {
    let differs =
        |what, expected: String, got: String| Err(FrameError::Shape { policy: id.clone(), what, expected, got });
    let sizes = [
        ("steps", expected.steps, got.steps),
        ("obs_len", expected.obs_len, got.obs_len),
        ("act_len", expected.act_len, got.act_len),
        ("dist_len", expected.dist_len, got.dist_len),
        ("state_len", expected.state_len, got.state_len),
    ];
    if let Some((what, expected, got)) = sizes.into_iter().find(|(_, expected, got)| expected != got) {
        return differs(what, expected.to_string(), got.to_string());
    }
    if expected.obs_kind != got.obs_kind {
        return differs("obs_kind", format!("{:?}", expected.obs_kind), format!("{:?}", got.obs_kind));
    }
    if expected.act_kind != got.act_kind {
        return differs("act_kind", format!("{:?}", expected.act_kind), format!("{:?}", got.act_kind));
    }
    let max = expected.columns;
    if (1..=max).contains(&got.columns) {
        Ok(())
    } else {
        Err(FrameError::Columns { policy: id.clone(), max, got: got.columns })
    }
}

fn check_packed(id: &PolicyId, head: &PolicyHead<'_>) -> Result<Option<usize>, FrameError> {
    let Some(got) = head.packed else { return Ok(None) };
    let expected = match head.shape.obs_kind {
        ObsKind::U8 => obs_bytes(&head.shape, (head.shape.steps + 1) * head.shape.columns),
        ObsKind::F32 => 0,
    };
    if got < expected { Ok(Some(got)) } else { Err(FrameError::PackedLength { policy: id.clone(), expected, got }) }
}

fn check_tags(id: &PolicyId, tags: &[Tag], life: u64, sender: &Sender) -> Result<(), FrameError> {
    let policy = || id.clone();
    for tag in tags {
        if tag.life != life {
            return Err(FrameError::Life { policy: policy(), expected: life, got: tag.life });
        }
        if !sender.workers.contains(&tag.worker) {
            let expected = sender.workers.clone();
            return Err(FrameError::Worker { policy: policy(), expected, got: tag.worker });
        }
        check_version(id, "a tag", tag.version, sender)?;
    }
    Ok(())
}

fn check_runs(id: &PolicyId, runs: &[Run], expected: usize, sender: &Sender) -> Result<(), FrameError> {
    let mut sum = 0_u64;
    for run in runs {
        check_version(id, "a step", run.version, sender)?;
        sum = sum.saturating_add(run.cells);
    }
    if sum == expected as u64 {
        return Ok(());
    }
    Err(FrameError::VersionCount { policy: id.clone(), expected, runs: runs.len(), got: sum })
}

fn check_version(
    id: &PolicyId,
    what: &'static str,
    got: u64,
    &Sender { newest_version: newest, .. }: &Sender,
) -> Result<(), FrameError> {
    if got <= newest { Ok(()) } else { Err(FrameError::Version { policy: id.clone(), what, newest, got }) }
}

fn check_env_steps(got: u64, expected: &Expected, policies: &[PolicyPlan<'_>]) -> Result<(), FrameError> {
    let (min, max) = match expected.env_steps {
        EnvSteps::UpTo(max) => (1, max),
        EnvSteps::OfCells => {
            let steps = policies.iter().map(|policy| policy.shape.agent_steps()).sum();
            (steps, steps)
        }
    };
    if (min..=max).contains(&got) { Ok(()) } else { Err(FrameError::EnvSteps { min, max, got }) }
}
