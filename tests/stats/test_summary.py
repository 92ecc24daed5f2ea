"""What estimators say of themselves."""

import numpy as np
import pytest

from probgeo.stats import (
    FrechetMean,
    GeodesicKMeans,
    GeodesicRegression,
    GeometricMedian,
    PrincipalGeodesics,
    TangentSpace,
)

pytest.importorskip("pandas")
X = np.random.default_rng(0).normal(size=(20, 3))


@pytest.mark.parametrize(
    ("estimator", "rows", "column"),
    [
        (FrechetMean(), 3, "standard_error"),
        (GeometricMedian(), 3, "numerical_std"),
        (TangentSpace(), 3, "mean"),
        (PrincipalGeodesics(n_components=2), 2, "explained_variance_ratio"),
        (GeodesicKMeans(n_clusters=4), 4, "points"),
    ],
)
def test_tables(estimator, rows, column):
    table = estimator.fit(X).summary()
    assert len(table) == rows
    assert np.isfinite(table.to_numpy(dtype=float)).all()
    assert column in table


def test_the_table_of_a_regression():
    table = GeodesicRegression().fit(X[:, 0], X).summary()
    np.testing.assert_allclose(table["coef"].iloc[0], 1.0)
    assert table.index.name == "coordinate"


def test_points_are_counted():
    assert GeodesicKMeans(n_clusters=4).fit(X).summary()["points"].sum() == 20
