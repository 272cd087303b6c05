package httphook

import (
	"net/url"
	"testing"
)

func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	h, err := New(Options{URL: &url.URL{Scheme: "http", Host: "hook.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.timeout != DefaultTimeout {
		t.Errorf("expected %s, but found %s", DefaultTimeout, h.timeout)
	}
}
