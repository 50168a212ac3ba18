"""From the word TARGET to Controllers: ``module`` or ``module:name``, the working directory first.

No registry and no magic name: every Controller bound at the module's top level runs, own or imported, in the
Manager that is bound there, if there is one.
"""

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from distq import mistakes
from distq.cli.output import escape
from distq.errors import ConfigError, DistqError
from distq.mistakes import did_you_mean, pointed, raising_line
from distq.wording import a_type

if TYPE_CHECKING:
    from distq.controller.controller import Controller
    from distq.controller.manager import Manager
    from distq.controller.watches import ResourceWatch


@dataclass(frozen=True)
class Program:
    """The Controllers of a target, in the order of their names' binding, and the Manager that runs them."""

    controllers: "Sequence[Controller]"
    manager: "Manager | None" = None
    """The Manager that the module binds; None without one."""

    @property
    def needs_lease(self) -> bool:
        """Return whether it has informers: for watches, or for runnables of the leader."""
        if self.manager is not None:
            return self.manager.needs_lease
        return any(controller.watches for controller in self.controllers)

    @property
    def watches(self) -> "list[ResourceWatch]":
        """Return all watches of resources."""
        from distq.controller.watches import resource_watches

        return [watch for each in self.controllers for watch in resource_watches(each.watches)]


def load_program(target: str) -> Program:
    """Import the target; return its Controllers, which its Manager has, too, where it binds one.

    Raises ConfigError where there is no such module, name, Controller or Manager. The traceback of an error
    inside the module goes to stderr first.
    """
    from distq.controller.controller import Controller
    from distq.controller.manager import Manager

    module_name, _, name = target.partition(":")
    module = _import(module_name)
    if name:
        bound = getattr(module, name, None)
        if isinstance(bound, Manager):
            return Program(bound.controllers, bound)
        if not isinstance(bound, Controller):
            what = f"{name} in {module_name} is {a_type(bound)}"
            if not hasattr(module, name):
                what = f'{module_name} has no "{name}"'
            remedy = did_you_mean(target, _targets_in(module), "Name a Controller, or a Manager.")
            raise ConfigError(f"nothing to run: {what}. {remedy}")
        return Program([bound])
    # by id: a Manager or a Controller with two names runs once
    managers = {id(bound): name for name, bound in vars(module).items() if isinstance(bound, Manager)}
    if len(managers) > 1:
        names = " or ".join(f"{module_name}:{name}" for name in managers.values())
        raise ConfigError(f"{module_name} has {len(managers)} Managers. Name one: {names}.")
    bound_there = vars(module).values()
    controllers = list({id(bound): bound for bound in bound_there if isinstance(bound, Controller)}.values())
    for name in managers.values():
        manager: Manager = vars(module)[name]
        for controller in controllers:
            if controller not in manager.controllers:
                manager.add(controller)
        return Program(manager.controllers, manager)
    if not controllers:
        raise ConfigError(
            f"nothing to run: {module_name} has no Controller. Bind one: controller = Controller(...)."
        )
    return Program(controllers)


def _targets_in(module: ModuleType) -> Iterator[str]:
    """Yield what names the Controllers and Managers at the module's top level."""
    from distq.controller.controller import Controller
    from distq.controller.manager import Manager

    for name, bound in vars(module).items():
        if isinstance(bound, Controller | Manager):
            yield f"{module.__name__}:{name}"


def _import(name: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        module = name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f'bad target "{name}": it is a file. Name the module: {module}.')
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f'bad target "{name}": it is no module name. Use module or module:name.')
    working_directory = str(Path.cwd())
    if sys.path[0] != working_directory:
        sys.path.insert(0, working_directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            here = f"Run distq in the folder of {name.replace('.', '/')}.py."
            remedy = did_you_mean(name, _similar_targets(name), here)
            where = f"not in {working_directory} nor on sys.path"
            raise ConfigError(f'no module "{name}": {where}. {remedy}') from None
        raise _broken(name, error) from error
    except ConfigError as error:  # a wrong argument or a missing extra: its line and message are enough
        raise pointed(error, raising_line(error.__traceback__)) from None
    except DistqError:
        raise
    except Exception as error:
        raise _broken(name, error) from error


def _similar_targets(name: str) -> Iterator[str]:
    """Yield the modules beside the one that is missing; of a module that is no package what it can run."""
    package, dot, _ = name.rpartition(".")
    found = sys.modules.get(package)
    if found is not None and not hasattr(found, "__path__"):
        yield from _targets_in(found)  # perhaps a dot in place of the colon
        return
    places = list(found.__path__) if found is not None else [str(Path.cwd())]
    yield from (f"{package}{dot}{each.name}" for each in pkgutil.iter_modules(places))


def _broken(name: str, error: Exception) -> ConfigError:
    """Print the user's part of the traceback; return the error to print after it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = {__file__, mistakes.__file__}
    theirs = [frame for frame in frames if "importlib" not in frame.filename and frame.filename not in ours]
    lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
    click.echo("Traceback (most recent call last):", err=True)
    for line in "".join(lines).splitlines():
        click.echo(escape(line), err=True)
    return ConfigError(f"cannot import {name}: {type(error).__name__} (above). Fix the module.")
