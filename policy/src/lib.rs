//! Policy room of pronk: how observations become action distributions and values.
