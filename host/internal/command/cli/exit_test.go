package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
)

func TestConclude(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for _, tc := range []struct {
		reason string
		err    error
		code   int
		told   string
	}{
		{"all is well", nil, 0, ""},
		{"an error is 1", no, 1, "error: no\n"},
		{"several are told one by one", errors.Join(no, errors.New("never")), 1, "error: no\nerror: never\n"},
		{"another code", fmt.Errorf("diff: %w", &cli.ExitError{Code: 2, Err: no}), 2, "error: diff: no\n"},
		{"a code says it all", &cli.ExitError{Code: 1}, 1, ""},
	} {
		var out bytes.Buffer
		if code := cli.Conclude(&out, tc.err); code != tc.code || out.String() != tc.told {
			t.Errorf("%s: expected %d and %q, but found %d and %q", tc.reason, tc.code, tc.told, code, out.String())
		}
	}
}
