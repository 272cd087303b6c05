//go:build !linux

package program

import "os"

// examineFurther finds nothing: file capabilities are Linux' own, and a file system that is mounted noexec shows at the start.
func examineFurther(*os.File) (capabilities, noExec bool, err error) { return false, false, nil }
