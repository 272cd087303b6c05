package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// readSBOM reads an SBOM, and checks that it is a valid one.
func readSBOM(t *testing.T, text []byte) *spdx.Document {
	t.Helper()
	document, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	described, err := spdxlib.GetDescribedPackageIDs(document)
	if err != nil || len(described) != 1 || described[0] != "Image" {
		t.Errorf("expected it to describe the image, but found %v (%v)", described, err)
	}
	if document.CreationInfo.Created != "2023-11-14T22:13:20Z" || document.DocumentNamespace == "" || document.DocumentName != "pergola v1.2.3" {
		t.Errorf("expected the name, a namespace and the date of the release, but found %q, %q and %q",
			document.DocumentName, document.DocumentNamespace, document.CreationInfo.Created)
	}
	return document
}

// purls are those of what a package depends on, or contains.
func purls(document *spdx.Document, from, relation string) (found []string) {
	packages := map[string]*spdx.Package{}
	for _, p := range document.Packages {
		packages[string(p.PackageSPDXIdentifier)] = p
	}
	for _, r := range document.Relationships {
		if string(r.RefA.ElementRefID) == from && r.Relationship == relation {
			found = append(found, packages[string(r.RefB.ElementRefID)].PackageExternalReferences[0].Locator)
		}
	}
	slices.Sort(found)
	return found
}

func TestSBOM(t *testing.T) {
	t.Parallel()
	d, variants := sample()
	made, _ := mustAssemble(t, d, sampleRelease, variants)
	document := readSBOM(t, made.sbom.content)

	content := purls(document, "Image", contains)
	if want := 1 + 2*len(d.programs); len(content) != want || !slices.Contains(content, "pkg:golang/"+rootsModule+"@v0.1.0") {
		t.Errorf("expected the certificates and the programs of two platforms, %d packages, but found %v", want, content)
	}
	of := string(identify("Program", "linux/amd64/plugins/helm"))
	want := []string{"pkg:golang/example.org/a@v1.0.0", "pkg:golang/example.org/c@v3.0.0", "pkg:golang/stdlib@1.26.8"}
	if diff := cmp.Diff(want, purls(document, of, dependsOn)); diff != "" {
		t.Errorf("modules of a program (-want +got):\n%s", diff)
	}
	for _, p := range document.Packages {
		if p.PackageName == "example.org/c" && p.PackageLicenseComments != "in the image: /licenses/example.org/c@v3.0.0/" {
			t.Errorf("expected it to say where the license of a module is, but found %q", p.PackageLicenseComments)
		}
	}
}

// What a real program was built of is all there.
func TestSBOMOfThisProgram(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, variants := sample()
	variants[0].programs[0].info = info
	made, _ := mustAssemble(t, d, sampleRelease, variants)
	found := purls(readSBOM(t, made.sbom.content), string(identify("Program", "linux/amd64/usr/local/bin/pergola")), dependsOn)
	if len(info.Deps) == 0 || len(found) != len(info.Deps)+1 {
		t.Errorf("expected the %d modules of this program and Go's own, but found %d", len(info.Deps), len(found))
	}
	for _, m := range info.Deps {
		if m.Replace == nil && !slices.Contains(found, "pkg:golang/"+m.Path+"@"+m.Version) {
			t.Errorf("%s %s is missing", m.Path, m.Version)
		}
	}
}
