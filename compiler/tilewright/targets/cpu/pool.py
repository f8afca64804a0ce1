"""The thread pool's code, as LLVM text: the only code of this target that is written by hand.

One job at a time: `n` turns in as many contiguous chunks as there are threads. A thread claims its own chunk
first, then any that nobody has begun, so that a thread that sleeps or lost its processor holds nobody up.
Every turn runs once whatever the number of threads, and results do not depend on who ran it.

* A caller that finds the pool busy, because another run has it or because it stands in a task itself, runs
  its loop alone.
* `generation` is odd while a job is being written and even when it can be read: a thread reads the job, and
  believes it only if the generation is still the same. Claims hold the generation they were last taken for,
  so a late thread finds nothing.
* Threads that wait spin for some tens of microseconds, then sleep on a futex.

`device.py` keeps the layout of the state and of env.
"""

from __future__ import annotations

from tilewright.targets.cpu.device import (
    CLAIMS,
    DONE,
    ENV_STATE,
    ENV_THREADS,
    GENERATION,
    JOB,
    LINE,
    LOCK,
    SLEEPERS,
    SYSCALL,
    WAITER,
)

PARALLEL_FOR, WORKER = "tilewright.parallel_for", "tilewright.worker"
_WORKER_SPINS, _CALLER_SPINS = 1500, 4000
_FUTEX, _WAIT, _WAKE, _EVERYBODY = 202, 128, 129, 2147483647  # private futexes

_TEXT = """
declare void @llvm.x86.sse2.pause()

define internal void @wait(ptr %state, ptr %word, i32 %value) noinline nounwind {{
  %p = getelementptr i8, ptr %state, i64 {SYSCALL}
  %syscall = load ptr, ptr %p, align 8
  %v = zext i32 %value to i64
  call i64 (i64, ...) %syscall(i64 {FUTEX}, ptr %word, i64 {WAIT}, i64 %v, ptr null, ptr null, i64 0)
  ret void
}}

define internal void @wake(ptr %state, ptr %word) noinline nounwind {{
  %p = getelementptr i8, ptr %state, i64 {SYSCALL}
  %syscall = load ptr, ptr %p, align 8
  call i64 (i64, ...) %syscall(i64 {FUTEX}, ptr %word, i64 {WAKE}, i64 {EVERYBODY}, ptr null, ptr null, i64 0)
  ret void
}}

; Runs all chunks of a job that can still be claimed, from the thread's own on.
define internal void @participate(
    ptr %state, i64 %me, i32 %generation, ptr %task, ptr %context, i64 %n, i64 %chunks) {{
entry:
  %done = getelementptr i8, ptr %state, i64 {DONE}
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %skip ]
  %sum = add i64 %me, %k
  %c = urem i64 %sum, %chunks
  %line = mul i64 %c, {LINE}
  %at = add i64 %line, {CLAIMS}
  %claim = getelementptr i8, ptr %state, i64 %at
  %old = load atomic i32, ptr %claim monotonic, align 4
  %age = sub i32 %generation, %old
  %free = icmp sgt i32 %age, 0
  br i1 %free, label %try, label %skip
try:
  %pair = cmpxchg ptr %claim, i32 %old, i32 %generation acq_rel monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %turn, label %skip
turn:
  %low = mul i64 %c, %n
  %high = add i64 %low, %n
  %begin = udiv i64 %low, %chunks
  %end = udiv i64 %high, %chunks
  call void %task(ptr %context, i64 %begin, i64 %end)
  %before = atomicrmw add ptr %done, i32 1 seq_cst
  %now = add i32 %before, 1
  %all = trunc i64 %chunks to i32
  %last = icmp eq i32 %now, %all
  br i1 %last, label %finish, label %skip
finish:
  %waiter = getelementptr i8, ptr %state, i64 {WAITER}
  %sleeping = load atomic i32, ptr %waiter seq_cst, align 4
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %rouse, label %skip
rouse:
  call void @wake(ptr %state, ptr %done)
  br label %skip
skip:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %chunks
  br i1 %more, label %next, label %out
out:
  ret void
}}

define void @{PARALLEL_FOR}(ptr %env, ptr %task, ptr %context, i64 %n) nounwind {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %work, label %out
work:
  %pt = getelementptr i8, ptr %env, i64 {ENV_THREADS}
  %threads = load i64, ptr %pt, align 8
  %fewer = icmp slt i64 %n, %threads
  %chunks = select i1 %fewer, i64 %n, i64 %threads
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %try, label %alone
try:
  %ps = getelementptr i8, ptr %env, i64 {ENV_STATE}
  %state = load ptr, ptr %ps, align 8
  %lock = getelementptr i8, ptr %state, i64 {LOCK}
  %pair = cmpxchg ptr %lock, i32 0, i32 1 acq_rel monotonic
  %got = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %got, label %publish, label %alone
alone:
  call void %task(ptr %context, i64 0, i64 %n)
  br label %out
publish:
  %pg = getelementptr i8, ptr %state, i64 {GENERATION}
  %previous = load atomic i32, ptr %pg monotonic, align 4
  %odd = add i32 %previous, 1
  %generation = add i32 %previous, 2
  store atomic i32 %odd, ptr %pg monotonic, align 4
  fence acq_rel
  %job = getelementptr i8, ptr %state, i64 {JOB}
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  store atomic ptr %task, ptr %job monotonic, align 8
  store atomic ptr %context, ptr %job1 monotonic, align 8
  store atomic i64 %n, ptr %job2 monotonic, align 8
  store atomic i64 %chunks, ptr %job3 monotonic, align 8
  %done = getelementptr i8, ptr %state, i64 {DONE}
  %waiter = getelementptr i8, ptr %state, i64 {WAITER}
  store atomic i32 0, ptr %done monotonic, align 4
  store atomic i32 0, ptr %waiter monotonic, align 4
  br label %reset
reset:
  %c = phi i64 [ 0, %publish ], [ %c1, %reset ]
  %line = mul i64 %c, {LINE}
  %at = add i64 %line, {CLAIMS}
  %claim = getelementptr i8, ptr %state, i64 %at
  store atomic i32 %previous, ptr %claim monotonic, align 4
  %c1 = add i64 %c, 1
  %more = icmp ult i64 %c1, %chunks
  br i1 %more, label %reset, label %announce
announce:
  store atomic i32 %generation, ptr %pg seq_cst, align 4
  %pz = getelementptr i8, ptr %state, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %pz seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %join
rouse:
  call void @wake(ptr %state, ptr %pg)
  br label %join
join:
  call void @participate(ptr %state, i64 0, i32 %generation, ptr %task, ptr %context, i64 %n, i64 %chunks)
  %all = trunc i64 %chunks to i32
  br label %spin
spin:
  %s = phi i32 [ 0, %join ], [ %s1, %pause ]
  %d = load atomic i32, ptr %done acquire, align 4
  %over = icmp eq i32 %d, %all
  br i1 %over, label %release, label %busy
busy:
  %long = icmp uge i32 %s, {CALLER_SPINS}
  br i1 %long, label %sleep, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %s1 = add i32 %s, 1
  br label %spin
sleep:
  store atomic i32 1, ptr %waiter seq_cst, align 4
  br label %check
check:
  %d1 = load atomic i32, ptr %done seq_cst, align 4
  %over1 = icmp eq i32 %d1, %all
  br i1 %over1, label %release, label %doze
doze:
  call void @wait(ptr %state, ptr %done, i32 %d1)
  br label %check
release:
  store atomic i32 0, ptr %lock release, align 4
  br label %out
out:
  ret void
}}

; A thread of the pool. %me points at its line among the claims: claim, index, address of the state.
define ptr @{WORKER}(ptr %me) nounwind {{
entry:
  %pi = getelementptr i8, ptr %me, i64 4
  %index32 = load i32, ptr %pi, align 4
  %index = zext i32 %index32 to i64
  %ps = getelementptr i8, ptr %me, i64 8
  %state = load ptr, ptr %ps, align 4
  %pg = getelementptr i8, ptr %state, i64 {GENERATION}
  %pz = getelementptr i8, ptr %state, i64 {SLEEPERS}
  %job = getelementptr i8, ptr %state, i64 {JOB}
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  br label %spin
spin:
  %last = phi i32 [ 0, %entry ], [ %last, %pause ], [ %last, %awake ], [ %last, %read ],
                  [ %g, %believe ], [ %g, %part ]
  %s = phi i32 [ 0, %entry ], [ %s1, %pause ], [ 0, %awake ], [ 0, %read ], [ 0, %believe ], [ 0, %part ]
  %g = load atomic i32, ptr %pg acquire, align 4
  %fresh = icmp ne i32 %g, %last
  %bit = and i32 %g, 1
  %even = icmp eq i32 %bit, 0
  %ready = and i1 %fresh, %even
  br i1 %ready, label %read, label %idle
idle:
  %long = icmp uge i32 %s, {WORKER_SPINS}
  br i1 %long, label %park, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %s1 = add i32 %s, 1
  br label %spin
park:
  %z0 = atomicrmw add ptr %pz, i32 1 seq_cst
  %g1 = load atomic i32, ptr %pg seq_cst, align 4
  %same = icmp eq i32 %g1, %last
  br i1 %same, label %sleep, label %awake
sleep:
  call void @wait(ptr %state, ptr %pg, i32 %last)
  br label %awake
awake:
  %z1 = atomicrmw sub ptr %pz, i32 1 seq_cst
  br label %spin
read:
  %task = load atomic ptr, ptr %job monotonic, align 8
  %context = load atomic ptr, ptr %job1 monotonic, align 8
  %n = load atomic i64, ptr %job2 monotonic, align 8
  %chunks = load atomic i64, ptr %job3 monotonic, align 8
  fence acquire
  %g2 = load atomic i32, ptr %pg monotonic, align 4
  %true = icmp eq i32 %g2, %g
  br i1 %true, label %believe, label %spin
believe:
  %wanted = icmp ult i64 %index, %chunks
  br i1 %wanted, label %part, label %spin
part:
  call void @participate(ptr %state, i64 %index, i32 %g, ptr %task, ptr %context, i64 %n, i64 %chunks)
  br label %spin
}}
"""


def pool_text(triple: str) -> str:
    """The module of the pool, with `parallel_for(env, task, context, n)` and the threads' main function."""
    body = _TEXT.format(
        PARALLEL_FOR=PARALLEL_FOR,
        WORKER=WORKER,
        SYSCALL=SYSCALL,
        LOCK=LOCK,
        GENERATION=GENERATION,
        JOB=JOB,
        DONE=DONE,
        SLEEPERS=SLEEPERS,
        WAITER=WAITER,
        CLAIMS=CLAIMS,
        LINE=LINE,
        ENV_THREADS=8 * ENV_THREADS,
        ENV_STATE=8 * ENV_STATE,
        FUTEX=_FUTEX,
        WAIT=_WAIT,
        WAKE=_WAKE,
        EVERYBODY=_EVERYBODY,
        WORKER_SPINS=_WORKER_SPINS,
        CALLER_SPINS=_CALLER_SPINS,
    )
    return f'target triple = "{triple}"\n{body}'
