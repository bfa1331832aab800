//! What holds for traces of every format.
