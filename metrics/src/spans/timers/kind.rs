/// The kind of a thread: its name without trailing numbers after `-` or `.`, as in `rollout-3`, `rollout-3.2`
/// and `rollout.2`.
pub(super) fn kind_of_thread(name: Option<&str>) -> String {
    let Some(name) = name else {
        return "unnamed".to_owned();
    };
    let mut kind = name;
    while let Some((front, last)) = kind.rsplit_once(['-', '.'])
        && !front.is_empty()
        && !last.is_empty()
        && last.bytes().all(|byte| byte.is_ascii_digit())
    {
        kind = front;
    }
    kind.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_end_make_no_kind_of_their_own() {
        for (name, kind) in [
            ("rollout-3", "rollout"),
            ("rollout-3.2", "rollout"),
            ("rollout.2", "rollout"),
            ("async-env-12-1", "async-env"),
            ("learner", "learner"),
            ("v2", "v2"),
            ("rollout-", "rollout-"),
            ("-3", "-3"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(kind_of_thread(Some(name)), kind, "{name}");
        }
        assert_eq!(kind_of_thread(None), "unnamed");
    }
}
