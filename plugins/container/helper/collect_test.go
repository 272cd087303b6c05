package main

import (
	"errors"
	"io/fs"
	"testing"
)

func TestAdvice(t *testing.T) {
	t.Parallel()
	denied := &fs.PathError{Op: "open", Path: "state/a", Err: fs.ErrPermission}
	if got := advised(denied).Error(); got != "open state/a: permission denied; have the image let all users read what it leaves" {
		t.Errorf("found %q", got)
	}
	other := errors.New("other")
	if got := advised(other); !errors.Is(got, other) || got.Error() != "other" {
		t.Errorf("found %v", got)
	}
}
