"""Gaussian conditioning written out in plain NumPy, independent of the package's linear algebra."""

import numpy as np


def gram(kernel, rows, columns):
    """Covariance of (time, derivative) pairs, one kernel entry at a time."""
    return np.array([[float(kernel.derivative(d, e, s, t)) for t, e in columns] for s, d in rows])


def condition(kernel, V, functionals, values, noise, targets, mean):
    """Posterior of targets given linear functionals of the curve.

    functionals: list of lists of (time, derivative, D x D coefficient); values: list of D-vectors;
    noise: list of D x D; targets: list of (time, derivative); mean(time, derivative) -> D-vector.
    Returns mean (T, D), covariance (T, D, T, D) and the log density of the values.
    """
    D = len(V)
    atoms = sorted({(t, d) for functional in functionals for t, d, _ in functional})
    maps = np.zeros((len(functionals), D, len(atoms), D))
    for i, functional in enumerate(functionals):
        for t, d, coefficient in functional:
            maps[i, :, atoms.index((t, d))] += coefficient
    H = maps.reshape(len(functionals) * D, len(atoms) * D)
    prior = np.kron(gram(kernel, atoms, atoms), V)
    cross = np.kron(gram(kernel, targets, atoms), V) @ H.T
    G = H @ prior @ H.T
    for i, block in enumerate(noise):
        G[i * D : (i + 1) * D, i * D : (i + 1) * D] += block
    atom_mean = np.concatenate([mean(t, d) for t, d in atoms])
    residual = np.concatenate(values) - H @ atom_mean
    target_mean = np.concatenate([mean(t, d) for t, d in targets])
    posterior_mean = target_mean + cross @ np.linalg.solve(G, residual)
    posterior_cov = np.kron(gram(kernel, targets, targets), V)
    posterior_cov = posterior_cov - cross @ np.linalg.solve(G, cross.T)
    _, logdet = np.linalg.slogdet(2 * np.pi * G)
    log_density = -0.5 * (residual @ np.linalg.solve(G, residual) + logdet)
    T = len(targets)
    return posterior_mean.reshape(T, D), posterior_cov.reshape(T, D, T, D), log_density
