"""The method by which programs are tuned; `autotune` does it."""

from __future__ import annotations

from typing import Any


class Tunable:
    """What a program that was planned for a graph offers to those who want it faster."""

    def autotune(self, *inputs: Any, budget: float = 2.0, workspace: int | None = None) -> Any:
        """Time the kernels that could compute this program, on these inputs, and choose the faster ones.

        Nothing live is touched: kernels run on copies, and so do whole programs. Another kernel is chosen where it is
        faster by more than noise and its results are within the operator's tolerance of the default kernel's; the
        tuned program is taken where it is faster as a whole.

        Parameters
        ----------
        *inputs
            As in a call. Values matter: zeros, denormal numbers and indices may change what is fastest.
        budget
            Seconds, beyond one run of the program. Applications that cost most are measured first.
        workspace
            Bytes of scratch, and for itself, that another kernel than the default one may want; None for any number.

        Returns
        -------
        Tuning
            The tuned program, the table for `Lazy.with_kernels`, and what was tried.

        Raises
        ------
        GraphError
            The program has effects, which would happen again and again, or was made of no graph.
        DeviceError
            The device computes nothing, or does not tell its kernels.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (8, 4), "float32")
        >>> program = lazy.compile(inputs=[x], outputs=[x @ x.T])
        >>> tuning = program.autotune(np.ones((8, 4), "float32"), budget=0.1)
        >>> len(tuning.program.plan.instructions), tuning.trials[0].verdict
        (1, 'default')
        """
        from nnc_func.engine.tuning.autotune import autotune  # what few ask for is imported when it is asked for

        return autotune(self, inputs, budget, workspace)
