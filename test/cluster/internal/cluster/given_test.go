package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGivenPrograms(t *testing.T) {
	const version = "#!/bin/sh\necho Kubernetes "
	for name, test := range map[string]struct {
		dir       string // instead of one with the programs
		programs  []string
		apiServer string
		want      string // in what is said, or in the error
		fails     bool
		complete  string // in the error of CheckComplete; empty for none
	}{
		"those of envtest": {
			programs: parts[0].programs, apiServer: version + "v1.29.0",
			want:     "Using Kubernetes v1.29.0 of $KUBEBUILDER_ASSETS",
			complete: "has no kube-controller-manager, kube-scheduler, kubelet, kube-proxy, pause: unset KUBEBUILDER_ASSETS",
		},
		"all of them": {
			programs: append(parts[1].programs, "pause", "etcd", "kube-apiserver", "kubectl"), apiServer: version + "v1.37.1",
			want: "v1.37.1",
		},
		"too old": {
			programs: parts[0].programs, apiServer: version + "v1.28.15", fails: true,
			want: "has Kubernetes v1.28.15, and Pergola needs 1.29 or newer", complete: "has no",
		},
		"something else": {
			programs: parts[0].programs, apiServer: "#!/bin/sh\necho usage", fails: true,
			want: `says "usage\n"`, complete: "has no",
		},
		"one is missing": {
			programs: []string{"etcd", "kube-apiserver"}, apiServer: version + "v1.37.1", fails: true, want: "has no kubectl:",
			complete: "has no kubectl, kube-controller-manager",
		},
		"a relative path": {dir: "bin", fails: true, want: "must be an absolute path", complete: "must be an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, program := range test.programs {
				if err := os.WriteFile(filepath.Join(dir, program), []byte(test.apiServer), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if test.dir != "" {
				dir = test.dir
			}
			var said strings.Builder
			p := &Programs{given: dir, version: "v1.37.1"}
			err := p.Build(t.Context(), &said)
			if err != nil {
				said.WriteString(err.Error())
			}
			if (err != nil) != test.fails || !strings.Contains(said.String(), test.want) {
				t.Errorf("got %q, want %q", said.String(), test.want)
			}
			lack := p.CheckComplete()
			if (lack != nil) != (test.complete != "") || lack != nil && !strings.Contains(lack.Error(), test.complete) {
				t.Errorf("lacks %v, want %q", lack, test.complete)
			}
		})
	}
}
