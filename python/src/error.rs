//! Errors as exceptions, with the texts that the program prints.
use pyo3::PyErr;
use pyo3::import_exception;
use zonal_lab::describe;

import_exception!(zonal.errors, InputError);
import_exception!(zonal.errors, DeviceError);

/// Bad input: what the program ends with exit code 2 for.
pub fn bad_input(error: impl Into<anyhow::Error>) -> PyErr {
    InputError::new_err(describe(&error.into()))
}
