"""The options that every command shares: store, policy, tenant, text or JSON. ``with_context`` adds them to a command.

A setting counts in this order: the option, its environment variable, the policy file, the default.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lazaretto.cli.common import JsonFlag, emit, plain_errors
from lazaretto.errors import StoreMissing
from lazaretto.ledger import Ledger, Store
from lazaretto.policy import Policy, presets

if TYPE_CHECKING:
    from lazaretto.guard.sync_guard import SyncGuard

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="LAZARETTO_STORE",
        help="Store URL, for example sqlite:///crew.db or postgresql://... Default: the policy's.",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        envvar="LAZARETTO_POLICY",
        help="Policy file (TOML), or a preset: minimal, recommended, strict. Default: recommended.",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", envvar="LAZARETTO_NAMESPACE", help="Tenant to work in. Default: the policy's."),
]
SHARED = {
    "store": (StoreOption, None),
    "policy": (PolicyOption, None),
    "namespace": (NamespaceOption, None),
    "json": (JsonFlag, False),
}
"""The options that every command takes: how each is declared, and its default."""

R = TypeVar("R")
log = logging.getLogger("lazaretto")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The store, policy and output of a command."""

    policy: Policy
    policy_given: str | None
    """The file or preset that the call names; None: the default."""
    store: str | None
    """Store URL; None: one SQLite file in the user's data folder."""
    namespace: str
    as_json: bool

    @classmethod
    def read(
        cls, store: str | None = None, policy: str | None = None, namespace: str | None = None, json: bool = False
    ) -> CommandContext:
        """The context that the shared options describe; environment variables are already in them."""
        rules = Policy.read(policy or None)
        return cls(rules, policy or None, store or rules.store or None, namespace or rules.namespace, json)

    @property
    def policy_file(self) -> str | None:
        """The file of the policy; None: a preset."""
        return None if self.policy_given in presets.NAMES else self.policy_given

    def open_ledger(self, *, create: bool = True, read_only: bool = False) -> Ledger:
        """The tenant's ledger."""
        ledger = Ledger.open(self.store, self.namespace, create=create, read_only=read_only)
        self._say_where(ledger)
        return ledger.configure_signing(self.policy.record)

    def open_store(self) -> Store:
        """The whole store as it is: neither created nor upgraded."""
        return Store.open(self.store, create=False, upgrade=False)

    def open_guard(
        self,
        *,
        policy: Policy | None = None,
        namespace: str | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> SyncGuard:
        """The tenant's guard; ``policy`` and ``namespace`` stand in for the context's own."""
        from lazaretto.guard import Guard
        from lazaretto.guard.sync_guard import SyncGuard
        from lazaretto.guard.telemetry import Logging

        ledger = Ledger.open(self.store, namespace or self.namespace, create=create, read_only=read_only)
        self._say_where(ledger)
        try:
            ledger.configure_signing(self.policy.record)
            guard = Guard(ledger, policy or self.policy, file=self.policy_file or "policy")
            if log.isEnabledFor(logging.INFO):
                guard.watchers.add(Logging())
            return SyncGuard(guard)
        except BaseException:
            ledger.close()
            raise

    @contextmanager
    def open_to_screen(self) -> Iterator[SyncGuard]:
        """The guard for a call that writes nothing, not even work that another process left; if there is no store yet,
        none is left behind."""
        with ExitStack() as stack:
            try:
                guard = self.open_guard(create=False, read_only=True)
            except StoreMissing:
                folder = stack.enter_context(TemporaryDirectory(prefix="lazaretto-"))
                guard = replace(self, store=f"sqlite:///{folder}/ledger.db").open_guard()
            yield stack.enter_context(guard)

    def _say_where(self, ledger: Ledger) -> None:
        policy = self.policy_file or repr(self.policy.preset)
        log.info("store %s, namespace %r, policy %s", ledger.url, ledger.namespace, policy)

    def emit(self, data: Any, show: Callable[[], None]) -> None:
        """Print ``data`` as JSON when asked, else let ``show`` draw it for a person."""
        emit(data, self.as_json, show)


def with_context(*, namespace: bool = True, json: bool = True) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorator for functions whose first parameter is the context: adds the shared options, explains errors.

    A command that works on the whole store takes no ``namespace``; one that never ends takes no ``json``.
    """
    wanted = {"store", "policy", *(["namespace"] if namespace else []), *(["json"] if json else [])}

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def run(**options: Any) -> R:
            shared = {name: options.pop(name) for name in SHARED if name in wanted}
            return command(CommandContext.read(**shared), **options)

        signature = inspect.signature(command, eval_str=True)
        _, *own = signature.parameters.values()
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        for name, (kind, default) in SHARED.items():
            if name in wanted:
                parameters.append(
                    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                )
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
        return plain_errors(run)

    return decorate
