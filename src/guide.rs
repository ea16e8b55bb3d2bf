#![doc = include_str!("guide/links.md")]
#![doc = include_str!("../docs/guide/README.md")]

/// Modules that are documented by the pages of `docs/guide/`.
///
/// A page ends with the addresses of other pages as files. Of two definitions of a link Markdown takes the
/// first, so here, behind `guide/links.md`, they lead to modules.
macro_rules! pages {
    ($($name:ident)*) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!(concat!("../docs/guide/", stringify!($name), ".md"))]
        pub mod $name {}
    )*};
}

pages! {
    first_run environments reading sizes algorithms atari gymnasium agents networks own_algorithm machines trouble
    coming_from
}
