//! Do the tests bite? Bugs are put into a copy of the workspace, one at a time; the ordinary tests
//! must catch each of them.
//!
//! The product knows nothing of this. A bug is an entry of the catalogue in `proof/bite`: a place in
//! a file, and what is written there instead.
//!
//! - [`catalogue`] the bugs, and the tests that are run on them
//! - [`block`] how the catalogue is written down
//! - [`tree`] the copy that bugs are put into and taken out of again
//! - [`cargo`] builds and tests the copy, within a time limit
//! - [`trial`] one bug after the other
//! - [`report`] what caught what

pub mod block;
pub mod cargo;
pub mod catalogue;
pub mod report;
pub mod tree;
pub mod trial;
