"""Steps that depend on settings of the package, of NumPy and of the process."""

ROWS = r"""
whether gradients are recorded
    step: return x * 2 if torch.is_grad_enabled() else x
    then: afterwards(torch.set_grad_enabled, True); torch.set_grad_enabled(False)

whether a result is part of a graph
    w = torch.ones(2, requires_grad=True)
    step: return (x * w).requires_grad
    then: afterwards(torch.set_grad_enabled, True); torch.set_grad_enabled(False)

inference mode
    step: return torch.is_inference_mode_enabled(), (x * 2).is_inference()
    then: mode = torch.inference_mode(); mode.__enter__(); afterwards(mode.__exit__, None, None, None)

the default dtype
    step: return str(torch.ones(2).dtype)
    then: afterwards(torch.set_default_dtype, torch.float32); torch.set_default_dtype(torch.float64)

the default dtype, by a division
    step: return str((torch.arange(2) / 2).dtype)
    then: afterwards(torch.set_default_dtype, torch.float32); torch.set_default_dtype(torch.float64)

autocast outside
    step: return str((x[None] @ x[:, None]).dtype)
    then: mode = torch.autocast("cpu", torch.bfloat16); mode.__enter__(); afterwards(mode.__exit__, None, None, None)

the default device
    step: return str(torch.ones(2).device)
    then: afterwards(torch.set_default_device, None); torch.set_default_device("meta")

the seed of the package's random numbers
    kind: input
    torch.manual_seed(0)
    step: return torch.rand(2)
    then: torch.manual_seed(7)

deterministic algorithms
    step: return x * 2 if torch.are_deterministic_algorithms_enabled() else x
    then: afterwards(torch.use_deterministic_algorithms, False); torch.use_deterministic_algorithms(True)

a flag of a backend
    step: return x * 2 if torch.backends.cudnn.benchmark else x
    then: patch.setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark)

how numbers are printed by NumPy
    import numpy as np
    step: return x, str(np.float64([0.123456789]))
    then: afterwards(np.set_printoptions, precision=8); np.set_printoptions(precision=2)

how NumPy takes errors
    import numpy as np
    step: return x, np.geterr()["divide"]
    then: afterwards(np.seterr, **np.geterr()); np.seterr(divide="raise")

the recursion limit
    import sys
    step: return x * sys.getrecursionlimit()
    then: afterwards(sys.setrecursionlimit, sys.getrecursionlimit()); sys.setrecursionlimit(5000)

whether garbage is collected
    import gc
    step: return x * 2 if gc.isenabled() else x
    then: afterwards(gc.enable); gc.disable()

how many threads run
    import threading
    step: return x * threading.active_count()
    then:
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        afterwards(thread.join), afterwards(stop.set)

the handler of a signal
    import signal
    step: return x * 2 if signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN else x
    then: afterwards(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, signal.SIG_IGN))

the stream that is standard output
    import io, sys
    step: return x, type(sys.stdout).__name__
    then: patch.setattr(sys, "stdout", io.StringIO())

a number that a method of sys gives
    import sys
    step: return x * sys.getswitchinterval()
    then: afterwards(sys.setswitchinterval, sys.getswitchinterval()); sys.setswitchinterval(0.125)

an alarm that is set
    import signal
    step: return x * (2 if signal.getitimer(signal.ITIMER_VIRTUAL)[0] else 1)
    then: afterwards(signal.setitimer, signal.ITIMER_VIRTUAL, 0); signal.setitimer(signal.ITIMER_VIRTUAL, 9e6)
"""
