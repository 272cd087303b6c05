package sandbox

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// architectures are how the kernel calls those that the filter is written for.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data, on little-endian machines.
const (
	offsetNumber       = 0
	offsetArchitecture = 4
	offsetPid          = 16 // the first argument
	offsetNewLimit     = 32 // the third one
)

// foreignNumbers is where the numbers of x32's system calls begin.
const foreignNumbers = 0x40000000

// keepOthersLimits takes away the right to set the limits of other processes of the same user, by which a program could end the host,
// and which Landlock does not know of. A kernel without filters, or another architecture, leaves it as it is. It holds for the calling
// thread, and needs no_new_privs.
func keepOthersLimits() error {
	architecture, known := architectures[runtime.GOARCH]
	if !known {
		return nil
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// jump passes over so many instructions if the test is met, and over so many others if it is not.
	jump := func(test uint16, value uint32, is, isNot uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jt: is, Jf: isNot}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	const allow, foreign, refuse = 11, 12, 13 // the places of the answers
	to := func(from, answer uint8) uint8 { return answer - from - 1 }
	filter := []unix.SockFilter{
		load(offsetArchitecture),
		jump(unix.BPF_JEQ, architecture, 0, to(1, foreign)), // whose calls have other numbers
		load(offsetNumber),
		jump(unix.BPF_JGE, foreignNumbers, to(3, foreign), 0),
		jump(unix.BPF_JEQ, unix.SYS_PRLIMIT64, 0, to(4, allow)),
		load(offsetPid),
		jump(unix.BPF_JEQ, 0, to(6, allow), 0), // of the caller itself
		load(offsetNewLimit),
		jump(unix.BPF_JEQ, 0, 0, to(8, refuse)),
		load(offsetNewLimit + 4),
		jump(unix.BPF_JEQ, 0, to(10, allow), to(10, refuse)), // without a new one it only asks
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}                                   // #nosec G115 -- it has fourteen
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) // #nosec G103 -- as the system call wants it
	runtime.KeepAlive(filter)
	if errors.Is(err, unix.EINVAL) {
		return nil // built without filters
	}
	return err
}
