"""What packages that extend tegg build on: rows of ops, providers of facts, and targets.

``docs/write-a-compiler.md`` and ``docs/add-a-backend.md`` show how.
"""

from tegg.dim import Dim, Poly, Shape, evaluate, symbols
from tegg.extract.cost import Costs, Level, load_costs
from tegg.errors import LoweringError
from tegg.ir.classes import ENode, Fragment
from tegg.ir.code import Code
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS, Op
from tegg.ir.places import Copies
from tegg.kernel.code import KernelCode, Stage, Temporary, Work
from tegg.planning.interpreter import Interpreter
from tegg.planning.plan import Buffer, Call, Plan
from tegg.planning.target import Executable, Target, find as find_target
from tegg.rewrite.compiler import Compiler, Generic, find as find_compiler
from tegg.rewrite.providers import Fact, Provider
from tegg.rewrite.view import View

__all__ = [
    "OPS",
    "Buffer",
    "Call",
    "Code",
    "Compiler",
    "Copies",
    "Costs",
    "Dim",
    "ENode",
    "Executable",
    "Fact",
    "Fragment",
    "Generic",
    "Graph",
    "Interpreter",
    "KernelCode",
    "Level",
    "LoweringError",
    "Node",
    "Op",
    "Plan",
    "Poly",
    "Provider",
    "Shape",
    "Stage",
    "Target",
    "Temporary",
    "View",
    "Work",
    "evaluate",
    "find_compiler",
    "find_target",
    "load_costs",
    "symbols",
]
