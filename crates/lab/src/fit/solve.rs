//! Linear algebra of a fit: least squares with few unknowns.

/// Solves `(JᵀJ + damping diag(JᵀJ)) x = Jᵀr` by Cholesky's method. `rows` are those of `J`, each with
/// its element of `r`. `None` if the matrix is singular.
pub(super) fn damped_least_squares(rows: &[(Vec<f64>, f64)], damping: f64) -> Option<Vec<f64>> {
    let n = rows.first()?.0.len();
    let (mut a, mut b) = (vec![vec![0.0; n]; n], vec![0.0; n]);
    for (row, right) in rows {
        for i in 0..n {
            b[i] += row[i] * right;
            for j in 0..=i {
                a[i][j] += row[i] * row[j];
            }
        }
    }
    for (i, row) in a.iter_mut().enumerate() {
        row[i] *= 1.0 + damping;
    }
    let lower = cholesky(a)?;
    Some(backward(&lower, forward(&lower, b)))
}

/// The diagonal of the inverse of `JᵀJ`: the variances of the unknowns if each row has variance 1.
pub(super) fn variances(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let n = rows.first()?.len();
    let element = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum();
    let normal = (0..n).map(|i| (0..n).map(|j| element(i, j)).collect()).collect();
    let lower = cholesky(normal)?;
    let unit = |at: usize| (0..n).map(|i| f64::from(u8::from(i == at))).collect();
    Some((0..n).map(|at| backward(&lower, forward(&lower, unit(at)))[at]).collect())
}

/// The lower triangle `L` with `L Lᵀ = a`, of which the lower triangle is read.
fn cholesky(mut a: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for i in 0..a.len() {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| a[i][k] * a[j][k]).sum();
            let rest = a[i][j] - sum;
            a[i][j] = if i == j { rest.sqrt() } else { rest / a[j][j] };
        }
        // Also false for a root of less than nothing.
        if !(a[i][i] > 1e-12 && a[i][i].is_finite()) {
            return None;
        }
    }
    Some(a)
}

fn forward(lower: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in 0..b.len() {
        let sum: f64 = (0..i).map(|k| lower[i][k] * b[k]).sum();
        b[i] = (b[i] - sum) / lower[i][i];
    }
    b
}

fn backward(lower: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in (0..b.len()).rev() {
        let sum: f64 = (i + 1..b.len()).map(|k| lower[k][i] * b[k]).sum();
        b[i] = (b[i] - sum) / lower[i][i];
    }
    b
}

/// Columns of a matrix in the order in which each has the largest part that those before it do not
/// explain (QR with column pivoting), with the length of that part. What is left of a column that the
/// others explain is near 0.
pub(super) fn pivots(columns: &[Vec<f64>]) -> Vec<(usize, f64)> {
    let mut left: Vec<Option<Vec<f64>>> = columns.iter().cloned().map(Some).collect();
    let mut order = Vec::with_capacity(columns.len());
    let length = |column: &[f64]| column.iter().map(|x| x * x).sum::<f64>().sqrt();
    while let Some((at, long)) = left
        .iter()
        .enumerate()
        .filter_map(|(at, column)| Some((at, length(column.as_ref()?))))
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    {
        order.push((at, long));
        let pivot = left[at].take().expect("it was there");
        if long == 0.0 {
            continue;
        }
        for column in left.iter_mut().flatten() {
            let along: f64 = column.iter().zip(&pivot).map(|(x, p)| x * p).sum::<f64>() / long;
            column.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= along * p / long);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_through_points_is_found() {
        let rows: Vec<(Vec<f64>, f64)> =
            (0..5).map(f64::from).map(|x| (vec![1.0, x], 3.0 - 2.0 * x)).collect();
        let found = damped_least_squares(&rows, 0.0).unwrap();
        assert!((found[0] - 3.0).abs() < 1e-9 && (found[1] + 2.0).abs() < 1e-9, "{found:?}");
        let damped = damped_least_squares(&rows, 10.0).unwrap();
        assert!(damped[1].abs() < 0.5, "a short step: {damped:?}");
        assert_eq!(damped_least_squares(&[(vec![1.0, 1.0], 1.0)], 0.0), None, "singular");
    }

    #[test]
    fn variances_are_those_of_independent_unknowns() {
        let rows = vec![vec![2.0, 0.0], vec![0.0, 1.0], vec![0.0, 1.0]];
        let found = variances(&rows).unwrap();
        assert!((found[0] - 0.25).abs() < 1e-12 && (found[1] - 0.5).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn columns_that_others_explain_come_last_with_nothing_left() {
        let columns = [vec![1.0, 0.0, 0.0], vec![0.0, 3.0, 0.0], vec![2.0, 3.0, 0.0], vec![0.0; 3]];
        let order = pivots(&columns);
        assert_eq!(order.iter().map(|&(at, _)| at).collect::<Vec<_>>(), [2, 1, 0, 3]);
        assert!(order[1].1 > 1.0 && order[2].1 < 1e-9 && order[3].1 == 0.0, "{order:?}");
    }
}
