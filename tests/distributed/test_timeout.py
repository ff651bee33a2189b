"""dist.set_timeout: how long the processes of a group wait for each other, from now on; torch has it since 2.14."""

import datetime
import subprocess
import sys

CODE = """
import datetime, torchgrad_jax as torch
import torchgrad_jax.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
own = dist.new_group([0])
dist.set_timeout(datetime.timedelta(seconds=30))
dist.set_timeout(datetime.timedelta(seconds=5), own)
print(dist.group.WORLD._timeout, own._timeout, dist.new_group([0])._timeout)
for wrong in ((3,), (datetime.timedelta(seconds=1), dist.GroupMember.NON_GROUP_MEMBER)):
    try:
        dist.set_timeout(*wrong)
    except (TypeError, ValueError) as error:
        print(error)
dist.all_reduce(torch.ones(1), group=own)
dist.destroy_process_group()
"""


def test_of_a_group():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "30.0 5.0 30.0",
        "Expected timeout argument to be of type datetime.timedelta, got 3",
        "Invalid process group specified",
    ], done.stderr


WAITING = """
import datetime, sys, time, torchgrad_jax as torch
import torchgrad_jax.distributed as dist

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
dist.barrier()
if rank:
    time.sleep(6)
    sys.exit()
dist.set_timeout(datetime.timedelta(seconds=1))
begin = time.monotonic()
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError:
    print(time.monotonic() - begin < 5)
"""


def test_an_operation_ends_when_it_is_over(tmp_path):
    command = [sys.executable, "-c", WAITING]
    begin = datetime.datetime.now()
    both = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    out = [process.communicate(timeout=120)[0] for process in both]
    assert out[0] == "True\n", datetime.datetime.now() - begin
