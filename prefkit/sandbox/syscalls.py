"""System calls by name, with their numbers on x86_64 and on aarch64 ("-": that architecture has none), as Linux's unistd.h files give them.

What stands in no table here is unknown to the sandbox and answers ENOSYS, as on a kernel that is older than the call. That is also
how clone3 (its flags cannot be read by a filter; libraries fall back to clone), io_uring, System V and POSIX queues and shared memory
(they outlive a run) are refused: programs take it for an old kernel and go on.
"""

from __future__ import annotations

ARCHITECTURES = ("x86_64", "aarch64")


def _table(text: str) -> dict[str, tuple[int | None, int | None]]:
    rows = (item.split() for item in text.split(","))
    return {name: (None if x86 == "-" else int(x86), None if arm == "-" else int(arm)) for name, x86, arm in rows}


ALLOWED = _table("""
read 0 63, write 1 64, open 2 -, openat 257 56, openat2 437 437, close 3 57, close_range 436 436, creat 85 -, stat 4 -, fstat 5 80,
lstat 6 -, newfstatat 262 79, statx 332 291, poll 7 -, ppoll 271 73, lseek 8 62, pread64 17 67, pwrite64 18 68, preadv 295 69,
pwritev 296 70, preadv2 327 286, pwritev2 328 287, readv 19 65, writev 20 66, access 21 -, faccessat 269 48, faccessat2 439 439,
pipe 22 -, pipe2 293 59, select 23 -, pselect6 270 72, dup 32 23, dup2 33 -, dup3 292 24, fcntl 72 25, flock 73 32, fsync 74 82,
fdatasync 75 83, sync_file_range 277 84, truncate 76 45, ftruncate 77 46, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49,
fchdir 81 50, rename 82 -, renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34, rmdir 84 -, link 86 -, linkat 265 37,
unlink 87 -, unlinkat 263 35, symlink 88 -, symlinkat 266 36, readlink 89 -, readlinkat 267 78, chmod 90 -, fchmod 91 52,
fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, umask 95 166, utime 132 -, utimes 235 -,
utimensat 280 88, futimesat 261 -, statfs 137 43, fstatfs 138 44, mknod 133 -, mknodat 259 33, sendfile 40 71, splice 275 76,
tee 276 77, copy_file_range 326 285, fallocate 285 47, fadvise64 221 223, readahead 187 213, getxattr 191 8, lgetxattr 192 9,
fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7,
removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27,
inotify_rm_watch 255 28, sync 162 81, syncfs 306 267, cachestat 451 451, mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216,
msync 26 227, mincore 27 232, madvise 28 233, brk 12 214, mlock 149 228, mlock2 325 284, munlock 150 229, mlockall 151 230,
munlockall 152 231, membarrier 324 283, pkey_mprotect 329 288, pkey_alloc 330 289, pkey_free 331 290, memfd_create 319 279,
map_shadow_stack 453 453, mseal 462 462, get_mempolicy 239 236, fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, exit 60 93,
exit_group 231 94, wait4 61 260, waitid 247 95, getpid 39 172, getppid 110 173, gettid 186 178, getpgid 121 155, setpgid 109 154,
getpgrp 111 -, setsid 112 157, getsid 124 156, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148,
getresgid 120 150, setreuid 113 145, setregid 114 143, setresuid 117 147, setresgid 119 149, setfsuid 122 151, setfsgid 123 152,
getgroups 115 158, setgroups 116 159, capget 125 90, capset 126 91, getrlimit 97 163, setrlimit 160 164, getrusage 98 165,
times 100 153, prctl 157 167, arch_prctl 158 -, getpriority 140 141, set_tid_address 218 96, set_robust_list 273 99,
get_robust_list 274 100, futex 202 98, futex_waitv 449 449, futex_wake 454 454, futex_wait 455 455, futex_requeue 456 456, rseq 334 293,
sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120, sched_get_priority_max 146 125,
sched_get_priority_min 147 126, sched_rr_get_interval 148 127, sched_getattr 315 275, ioprio_get 252 31, getcpu 309 168,
pidfd_open 434 434, restart_syscall 219 128, uname 63 160, sysinfo 99 179, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
pidfd_send_signal 424 424, landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446,
getrandom 318 278, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137,
rt_sigsuspend 130 133, sigaltstack 131 132, signalfd 282 -, signalfd4 289 74, pause 34 -, alarm 37 -, getitimer 36 102,
setitimer 38 103, nanosleep 35 101, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, gettimeofday 96 169,
time 201 -, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109, timer_delete 226 111,
timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, eventfd 284 -, eventfd2 290 19, epoll_create 213 -,
epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, recvfrom 45 207, sendmsg 46 211,
recvmsg 47 212, sendmmsg 307 269, recvmmsg 299 243, shutdown 48 210, getsockname 51 204, getpeername 52 205, setsockopt 54 208,
getsockopt 55 209
""")
"""What CPython, node, gcc and bash need."""

CONDITIONAL = _table("""
clone 56 220, kill 62 129, tkill 200 130, tgkill 234 131, setuid 105 146, setgid 106 144, prlimit64 302 261, socket 41 198,
socketpair 53 199, sendto 44 206, ioctl 16 29, personality 135 92, setpriority 141 140, sched_setaffinity 203 122,
sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274
""")
"""Allowed with some arguments; seccomp.py says which."""

HOSTILE = _table("""
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, pidfd_getfd 438 438, kcmp 312 272, mount 165 40, umount2 166 39,
pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
fspick 433 433, mount_setattr 442 442, unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241, kexec_load 246 104,
kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106, reboot 169 142, swapon 167 224,
swapoff 168 225, acct 163 89, quotactl 179 60, quotactl_fd 443 443, sethostname 170 161, setdomainname 171 162, settimeofday 164 170,
clock_settime 227 112, iopl 172 -, ioperm 173 -, open_by_handle_at 304 265
""")
"""No program that answers a question makes these: an attempt is a breach of policy, whatever the program does next."""

FORBIDDEN = _table("""
connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, keyctl 250 219, add_key 248 217, request_key 249 218,
userfaultfd 323 282, syslog 103 116, clock_adjtime 305 266, adjtimex 159 171, modify_ldt 154 -, vhangup 153 58, fanotify_init 300 262,
ioprio_set 251 30, mbind 237 235, set_mempolicy 238 237, migrate_pages 256 238, move_pages 279 239, name_to_handle_at 303 264,
process_madvise 440 440, process_mrelease 448 448, seccomp 317 277
""")
"""Refused; a program may make them by habit, so they count only where it then fails."""
