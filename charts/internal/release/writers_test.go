package main

import (
	"archive/tar"
	"bytes"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

var date = time.Unix(1_700_000_000, 0).UTC()

// TestPack packs the same files as different people have left them in a tar.
func TestPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, headers := range map[string][]tar.Header{
		"first": {
			{Name: "pergola/Chart.yaml", Mode: 0o644, ModTime: date},
			{Name: "pergola/run", Mode: 0o755, ModTime: date},
			{Name: "pergola/templates/a.yaml", Mode: 0o644, ModTime: date.Add(time.Second)},
		},
		"second": {
			{Name: "pergola/templates/a.yaml", Mode: 0o400, Uid: 1000, Uname: "me", Format: tar.FormatPAX},
			{Name: "pergola/", Typeflag: tar.TypeDir, Mode: 0o700},
			{Name: "pergola/run", Mode: 0o555},
			{Name: "pergola/Chart.yaml", Mode: 0o664},
		},
	} {
		var packed bytes.Buffer
		archive := tar.NewWriter(&packed)
		for _, header := range headers {
			if header.Typeflag == 0 {
				header.Size = int64(len(header.Name))
			}
			if err := archive.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write([]byte(header.Name)[:header.Size]); err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := unpack(&packed)
		if err == nil {
			err = pack(filepath.Join(dir, name), date, files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := contents(t, dir); got["first"] != got["second"] {
		t.Error("expected the same archive of the same files, but found another one")
	}
}

func TestBOM(t *testing.T) {
	t.Parallel()
	yaml := &debug.Module{Path: "example.org/yaml", Version: "v1.0.0"}
	fork := &debug.Module{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{
		Path: "example.org/fork", Version: "v2.0.0+incompatible",
	}}
	programs := []program{
		{"pergola", "linux/amd64", "plugins/mock", "aa", &debug.BuildInfo{
			GoVersion: "go1.26.8", Deps: []*debug.Module{yaml, fork},
		}},
		{"pergola", "linux/arm64", "plugins/mock", "bb", &debug.BuildInfo{
			GoVersion: "go1.26.8", Deps: []*debug.Module{yaml},
		}},
	}
	first := bom("v1.2.3", date, programs)
	slices.Reverse(programs[0].info.Deps)
	if diff := cmp.Diff(first, bom("v1.2.3", date, programs)); diff != "" {
		t.Errorf("expected the same list of the same programs, but found (-first +second):\n%s", diff)
	}
	const (
		stdlib = "pkg:golang/stdlib@1.26.8"
		yamlAt = "pkg:golang/example.org/yaml@v1.0.0"
		forkAt = "pkg:golang/example.org/fork@v2.0.0%2Bincompatible"
	)
	var got []string
	for _, component := range *first.Components {
		got = append(got, component.BOMRef)
		if component.Type == cdx.ComponentTypeLibrary && component.PackageURL != component.BOMRef {
			t.Errorf("expected the package URL %s, but found %s", component.BOMRef, component.PackageURL)
		}
	}
	const amd64, arm64 = "pergola:linux/amd64:plugins/mock", "pergola:linux/arm64:plugins/mock"
	if diff := cmp.Diff([]string{amd64, arm64, forkAt, yamlAt, stdlib}, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if sum := (*(*first.Components)[1].Hashes)[0]; sum.Value != "bb" || sum.Algorithm != cdx.HashAlgoSHA256 {
		t.Errorf("expected the checksum of the program, but found %v", sum)
	}
	want := []cdx.Dependency{
		{Ref: amd64, Dependencies: &[]string{forkAt, yamlAt, stdlib}},
		{Ref: arm64, Dependencies: &[]string{yamlAt, stdlib}},
		{Ref: "pergola", Dependencies: &[]string{amd64, arm64}},
	}
	if diff := cmp.Diff(want, *first.Dependencies); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
}
