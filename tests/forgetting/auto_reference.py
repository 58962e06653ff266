"""Auto as lists of experts for one block of a conjugate model, in NumPy: the specification read aloud."""

import dataclasses
import itertools

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

HORIZONS = [*(2.0**k for k in range(3, 18)), np.inf]


@dataclasses.dataclass(eq=False)
class Expert:
    kind: str
    params: np.ndarray
    log_weight: float
    horizon: float = np.nan
    age: float = np.nan


class Block:
    """One block: its log normalizer, its prior, its experts."""

    def __init__(self, log_normalizer, prior):
        self.log_normalizer, self.prior = log_normalizer, np.asarray(prior, float)
        self.experts = [Expert("fade", self.prior, -np.inf, horizon=h) for h in HORIZONS]
        self.clock = 0.0
        self.size = lambda params: self.count(params - self.prior)
        self.evidence_of_fades = np.zeros(len(HORIZONS))

    def of(self, kind):
        return [e for e in self.experts if e.kind == kind]

    def target(self):
        """Where sharing moves weight."""
        shares = []
        recalls = len(self.of("recall"))
        for expert in self.experts:
            share = 0.0
            if expert.kind == "fade":
                share = 0.25 / 16
            elif expert.kind == "recall":
                share = 0.25 / recalls
            elif expert.age == 0:
                share = 0.5
            shares.append(share)
        return np.array(shares) / sum(shares)

    def step(self, message, n):
        if self.clock > 0:
            mean = sum(np.exp(e.log_weight) * e.params for e in self.experts)
            self.experts.append(Expert("recall", mean, -np.inf, age=0.0))
        self.experts.append(Expert("restart", self.prior, -np.inf, age=0.0))
        before = np.array([e.log_weight for e in self.experts])
        weights = np.exp(before)
        retained = sum(w * self.size(e.params) for w, e in zip(weights, self.experts, strict=True))
        after = self.clock + n
        share = 1.0 - self.clock / after
        target = self.target()
        shared = (1.0 - share) * weights + share * target
        tempered = [
            self.prior + np.exp(-n / e.horizon) * (e.params - self.prior)
            if e.kind == "fade"
            else e.params
            for e in self.experts
        ]
        evidence = np.array(
            [self.log_normalizer(eta + message) - self.log_normalizer(eta) for eta in tempered]
        )
        self.evidence_of_fades += evidence[: len(HORIZONS)]
        with np.errstate(divide="ignore"):
            joint = np.log(shared) + evidence
            switch = logsumexp(np.log(target) + evidence)
            stay = logsumexp(before + evidence) if self.clock > 0 else switch
        log_evidence = logsumexp(joint)
        kept = 0.0
        held = 0.0
        for expert, eta, log_weight in zip(
            self.experts, tempered, joint - log_evidence, strict=True
        ):
            weight = np.exp(log_weight)
            kept += weight * self.size(eta)
            held += weight * self.size(eta + message)
            expert.params = eta + (weight if expert.kind == "recall" else 1.0) * message
            expert.log_weight = log_weight
            expert.age += n
        rho = min(1.0, kept / retained) if retained > 0 else 1.0
        for kind in ("restart", "recall"):
            self.prune(kind)
        self.clock = after
        return {
            "bound": log_evidence,
            "rho": rho,
            "log_bf": switch - stay,
            "recalled": sum(np.exp(e.log_weight) for e in self.of("recall")),
            "drifting": self.changed_within(after / 4),
        }

    def changed_within(self, span):
        reach = [(e.horizon if e.kind == "fade" else e.age, e) for e in self.experts]
        return sum(np.exp(e.log_weight) for r, e in reach if e.kind != "recall" and r <= span)

    def prune(self, kind):
        alive = sorted(self.of(kind), key=lambda e: e.age)
        if len(alive) <= 8:
            return
        ratios = [old.age / young.age for young, old in itertools.pairwise(alive)]
        # of equal ratios, the oldest pair
        place = len(ratios) - 1 - int(np.argmin(ratios[::-1]))
        young, old = alive[place], alive[place + 1]
        lost, heir = (old, young) if old.log_weight < young.log_weight else (young, old)
        heir.log_weight = np.logaddexp(heir.log_weight, lost.log_weight)
        self.experts.remove(lost)


class Draws(Block):
    """Bernoulli draws with a Beta prior (a, b)."""

    def __init__(self, a=1.0, b=1.0):
        super().__init__(lambda p: betaln(*p), [a, b])

    def count(self, params):
        return params.sum()

    @staticmethod
    def constant(n):
        """What the log density of n rows has that no message carries."""
        return 0.0 * n

    def learn(self, x):
        x = np.asarray(x, float)
        return self.step(np.array([x.sum(), (1 - x).sum()]), len(x))


class Values(Block):
    """Normal values; parameters are scale, scale times mean, shape, and rate plus scale mean^2 / 2."""

    def __init__(self, shape, rate, mean, scale):
        super().__init__(self.log_normal, [scale, scale * mean, shape, rate + scale * mean**2 / 2])

    @staticmethod
    def log_normal(params):
        scale, product, shape, total = params
        return gammaln(shape) - shape * np.log(total - product**2 / scale / 2) - np.log(scale) / 2

    def count(self, params):
        return params[0]

    @staticmethod
    def constant(n):
        """What the log density of n rows has that no message carries."""
        return -n / 2 * np.log(2 * np.pi)

    def learn(self, x):
        n = len(x)
        found = self.step(np.array([n, x.sum(), n / 2, (x**2).sum() / 2]), n)
        return {**found, "bound": found["bound"] + self.constant(n)}
