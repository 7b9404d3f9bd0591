"""How often the trial that is chosen is truly worse than the default, by rule, on sweeps that tomorrow.py has run.

usage: selections.py FOLDER [--draws N]

FOLDER has, for each sweep, the losses of all its trials on each row of valid, calib and test. A
selection draws the rows of valid and of calib with replacement and applies a rule to them; the
trial that it chooses is judged against trial 0, the default, on all rows of test, which no trial
was trained, stopped or chosen on. It is worse beyond chance if it is behind by two standard errors
of the paired rows of test. Shares of all selections; gains in % of the default's loss on test, over
the trial that is best on valid. """

import argparse
import glob
import os
import sys

import numpy as np


class Seen:
    """What a selection sees of one split: each trial's mean loss less the default's, and the covariance of these."""

    def __init__(self, rows, mean, noise):
        self.rows, self.mean, self.noise = rows, mean, noise

    @classmethod
    def of(cls, loss, rng):
        rows = loss.shape[1]
        d, drawn = loss - loss[0], rng.multinomial(rows, np.full(rows, 1 / rows))
        return cls(rows, d @ drawn / rows, np.cov(d, fweights=drawn) / rows)

    def with_(self, other):
        """The rows of both."""
        a, b = self.rows / (self.rows + other.rows), other.rows / (self.rows + other.rows)
        return Seen(self.rows + other.rows, a * self.mean + b * other.mean, a**2 * self.noise + b**2 * other.noise)

    def beyond_chance(self, n, errors=1.96):
        """Whether trial n is better than the default by so many standard errors."""
        return self.mean[n] < -errors * self.noise[n, n] ** 0.5


def posterior(v, covariance):
    """The best posterior mean, where the trials' true differences are normal with a mean and a variance that all
    trials together show (empirical Bayes). The default's is 0."""
    mean, noise, n = v.mean[1:], covariance(v.noise[1:, 1:]), len(v.mean) - 1
    spread = ((mean - mean.mean()) ** 2).sum() - np.trace((np.eye(n) - 1 / n) @ noise)
    spread = max(spread / (n - 1), 1e-18) * np.eye(n)
    shrunk = mean.mean() + spread @ np.linalg.solve(spread + noise, mean - mean.mean())
    return int(np.argmin(np.r_[0, shrunk]))


def best(valid, calib):
    return int(np.argmin(valid.mean))


def both(valid, calib):
    return int(np.argmin(valid.with_(calib).mean))


def confirmed(choose, agrees):
    """The choice, or the default where a split does not agree."""

    def rule(valid, calib):
        n = choose(valid, calib)
        return n if agrees(n, valid, calib) else 0

    return rule


RULES = {
    "best on valid": best,
    "the default": lambda valid, calib: 0,
    "the default, unless the best is ahead beyond chance on valid": confirmed(best, lambda n, v, c: v.beyond_chance(n)),
    "best posterior mean, noise of trials independent": lambda v, c: posterior(v, lambda m: np.diag(np.diag(m))),
    "best posterior mean, noise of trials correlated": lambda v, c: posterior(v, lambda m: m),
    "best on valid and calib together": both,
    "the default, unless that is ahead beyond chance there": confirmed(
        both, lambda n, v, c: v.with_(c).beyond_chance(n)
    ),
    "the default, unless that is ahead by 0.5 standard errors there": confirmed(
        both, lambda n, v, c: v.with_(c).beyond_chance(n, 0.5)
    ),
    "the default, unless that is ahead by 1 standard error there": confirmed(
        both, lambda n, v, c: v.with_(c).beyond_chance(n, 1)
    ),
    "the default, unless that is ahead by 1.5 standard errors there": confirmed(
        both, lambda n, v, c: v.with_(c).beyond_chance(n, 1.5)
    ),
    "best posterior mean on valid and calib, correlated": lambda v, c: posterior(v.with_(c), lambda m: m),
    "best on valid, unless the default is ahead on calib": confirmed(best, lambda n, v, c: c.mean[n] < 0),
    "the default, unless the best is ahead beyond chance on calib": confirmed(best, lambda n, v, c: c.beyond_chance(n)),
}


def simulate(path, draws):
    """By rule: mean loss on test beside the default's, the shares that are worse, by 0, by a thousandth and beyond
    chance, and the share of the default, all in %."""
    with np.load(path) as f:
        valid, calib, test = f["valid"], f["calib"], f["test"]
    d = test - test[0]
    behind, error = d.mean(1) / test[0].mean(), d.std(1) / d.shape[1] ** 0.5 / test[0].mean()
    rng = np.random.default_rng(32)
    chosen = {rule: [] for rule in RULES}
    for _ in range(draws):
        seen = [Seen.of(loss, rng) for loss in (valid, calib)]
        for rule, choose in RULES.items():
            chosen[rule].append(choose(*seen))
    told = {}
    for rule, n in chosen.items():
        worse = behind[n] > 0, behind[n] > 0.001, behind[n] > np.maximum(2 * error[n], 1e-12)
        told[rule] = [100 * behind[n].mean(), *(100 * w.mean() for w in worse), 100 * np.mean(np.array(n) == 0)]
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--draws", type=int, default=500)
    a = parser.parse_args()
    told = {}
    for path in sorted(glob.glob(a.folder + "/*.npz")):
        table = os.path.basename(path).rsplit("-", 3)[0]
        told.setdefault(table, []).append(simulate(path, a.draws))
    if not told:
        sys.exit(f"{a.folder} has no losses; make bench-tomorrow leaves them there")

    sweeps = sum(map(len, told.values()))
    print(f"{sweeps} sweeps, {a.draws} selections of each\n")
    print("| gain on test over the best on valid, % | " + " | ".join(told) + " | mean | tables behind |", end="")
    print(" worse than the default, % | by a thousandth | beyond chance | the default chosen |")
    print("|---" * (len(told) + 7) + "|")
    plain = next(iter(RULES))
    for rule in RULES:
        gains = [np.mean([r[plain][0] - r[rule][0] for r in of_it]) for of_it in told.values()]
        shares = np.mean([np.mean([r[rule][1:] for r in of_it], 0) for of_it in told.values()], 0)
        cells = [f"{g:+.2f}" for g in (*gains, np.mean(gains))] + [str(sum(g < 0 for g in gains))]
        print("| " + " | ".join([rule, *cells, *(f"{s:.1f}" for s in shares)]) + " |")
    print("\n| worse than the default by a thousandth, % | " + " | ".join(told) + " |")
    print("|---" * (len(told) + 1) + "|")
    for rule in RULES:
        shares = [np.mean([r[rule][2] for r in of_it]) for of_it in told.values()]
        print(f"| {rule} | " + " | ".join(f"{s:.0f}" for s in shares) + " |")


if __name__ == "__main__":
    sys.exit(main())
