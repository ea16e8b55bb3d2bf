//! Buffer room of pronk: how data waits and who owns it.
