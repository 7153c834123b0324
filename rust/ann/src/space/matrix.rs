//! Checks the rows of matrices that callers pass, before an index takes them.

use siltstone_core::{Error, ErrorKind, Result, SparseRow};

use super::scale::check_row;

/// The rows of a matrix of `dimension` numbers a row, all of them finite. `field` is its name in messages.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the numbers are not whole rows, or one of them is not finite.
pub fn rows<'a>(
    values: &'a [f32],
    dimension: usize,
    field: &str,
) -> Result<impl ExactSizeIterator<Item = &'a [f32]> + use<'a>> {
    if !values.len().is_multiple_of(dimension) {
        let count = values.len();
        return Err(refused(format!(
            "{field} must have {dimension} numbers each, got {count} in all"
        )));
    }
    let rows = values.chunks_exact(dimension);
    for (number, row) in rows.clone().enumerate() {
        check_row(row, number, field)?;
    }
    Ok(rows)
}

/// The rows of a sparse matrix in CSR form: row n has the buckets and values `starts[n]..starts[n + 1]`.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if a row reaches out of the values, a value is not finite, or a row is not one of
/// counts, as [`SparseRow::of_weights`] defines.
pub fn sparse_rows(
    starts: &[i64],
    buckets: &[i32],
    values: &[f32],
    field: &str,
) -> Result<Vec<SparseRow>> {
    check_row(values, 0, field)?;
    let bounds = starts.windows(2).enumerate();
    let rows = bounds.map(|(number, bounds)| {
        let (start, end) = (bounds[0], bounds[1]);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let row = range
            .and_then(|(start, end)| Some((buckets.get(start..end)?, values.get(start..end)?)));
        let Some((buckets, values)) = row else {
            return Err(refused(format!(
                "row {number} of the matrix reaches from {start} to {end}, out of its {} values",
                values.len()
            )));
        };
        SparseRow::of_weights(buckets, values)
            .map_err(|error| refused(format!("row {number}: {error}")))
    });
    rows.collect()
}

/// The error for vectors that an index does not accept.
pub(crate) fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with("field", "vectors")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_has_whole_rows_of_finite_numbers() {
        let found: Vec<&[f32]> = rows(&[1.0, 2.0, 3.0, 4.0], 2, "queries").unwrap().collect();
        assert_eq!(found, [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(rows(&[], 2, "queries").unwrap().len(), 0);
        let message = |values: &[f32]| rows(values, 2, "queries").err().unwrap().to_string();
        assert!(
            message(&[1.0, 2.0, 3.0]).contains("queries must have 2 numbers each, got 3 in all")
        );
        assert!(message(&[1.0, 2.0, 3.0, f32::NAN]).contains("row 1, column 1"));
    }

    #[test]
    fn a_sparse_matrix_has_rows_within_its_values() {
        let read = |starts: &[i64]| sparse_rows(starts, &[1, 4, 2], &[1.0, 2.0, 1.0], "vectors");
        let rows = read(&[0, 2, 2, 3]).unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows[0],
            SparseRow::of_weights(&[1, 4], &[1.0, 2.0]).unwrap()
        );
        assert_eq!(rows[1], SparseRow::of_weights(&[], &[]).unwrap());
        for starts in [&[0, 4][..], &[2, 1], &[-1, 2]] {
            let error = read(starts).unwrap_err();
            assert!(
                error.to_string().contains("row 0 of the matrix reaches"),
                "{error}"
            );
        }
        let error = sparse_rows(&[0, 2], &[4, 1], &[1.0, 1.0], "vectors").unwrap_err();
        assert!(
            error.to_string().starts_with("row 0: buckets must ascend"),
            "{error}"
        );
        assert!(sparse_rows(&[0, 1], &[1], &[f32::INFINITY], "vectors").is_err());
    }
}
