"""The federation: the contract of a method, the round loop, and what both stand on.

:mod:`~duotone.federation.method` has the questions every method answers,
:mod:`~duotone.federation.protocols` those that only some can answer,
:mod:`~duotone.federation.engine` the loop that asks them round by round,
:mod:`~duotone.federation.local_training` the training loop of a client and
:mod:`~duotone.federation.aggregate` the server's means. Updates pass
:mod:`~duotone.federation.screening` before they are averaged, rounds are kept by
:mod:`~duotone.federation.store`, and clients are computed by one of the
:mod:`~duotone.federation.backends`. Nothing in here evaluates, and nothing knows a method by name.
"""
