//! Page of `graph -o html`, in a real browser.

pub(crate) mod chromium;
mod drawn;
mod hostile;
mod live;
mod scale;
