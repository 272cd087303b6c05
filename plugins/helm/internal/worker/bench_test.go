package worker

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// BenchmarkWorker is the cost of having nothing done by a worker, which is used again.
func BenchmarkWorker(b *testing.B) {
	p := newPool(b, Options{})
	for b.Loop() {
		if _, err := p.Run(b.Context(), request("nothing"), &observer{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInstall adds a megabyte of values and some objects, there and back.
func BenchmarkInstall(b *testing.B) {
	p := newPool(b, Options{})
	req := request("installs", func(r *helm.Request) { r.Values = []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`) })
	for b.Loop() {
		if _, err := p.Run(b.Context(), req, &observer{}); err != nil {
			b.Fatal(err)
		}
	}
}
