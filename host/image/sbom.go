package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// sbomType is what registries know the SBOM by.
const sbomType = "application/spdx+json"

// Relations and purposes, in the words of SPDX.
const (
	describes = "DESCRIBES"
	contains  = "CONTAINS"
	dependsOn = "DEPENDS_ON"

	container   = "CONTAINER"
	application = "APPLICATION"
	library     = "LIBRARY"

	unknown = "NOASSERTION"
)

// bill is an SBOM in the making.
type bill struct {
	packages  map[common.ElementID]*spdx.Package
	relations []*spdx.Relationship
}

// describe writes the SBOM of an image, whose digest this is: its programs on each platform, and the modules that each was built of, as Go
// has written them into the programs themselves.
func describe(d definition, r release, index digest.Digest, variants []variant) ([]byte, error) {
	b := &bill{packages: map[common.ElementID]*spdx.Package{}}
	whole := b.add(spdx.Package{
		PackageSPDXIdentifier: "Image", PackageName: d.name, PackageVersion: r.version, PrimaryPackagePurpose: container,
		PackageLicenseDeclared: license, PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: index.Encoded()}},
		PackageExternalReferences: purl("pkg:oci/" + d.name + "@" + strings.Replace(index.String(), ":", "%3A", 1)),
	})
	b.relate("DOCUMENT", describes, whole)
	for _, m := range d.data {
		b.relate(whole, contains, b.module(m))
	}
	for _, v := range variants {
		for _, p := range v.programs {
			b.relate(whole, contains, b.program(r, v.platform, p))
		}
	}
	var out bytes.Buffer
	if err := spdxjson.Write(b.document(d, r, index), &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("write SBOM: %w", err)
	}
	return out.Bytes(), nil
}

func (b *bill) document(d definition, r release, index digest.Digest) *spdx.Document {
	out := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.name + " " + r.version,
		DocumentNamespace: source + "/sbom/" + d.name + "/" + index.Encoded(),
		CreationInfo:      &spdx.CreationInfo{Created: r.date(), Creators: []common.Creator{{CreatorType: "Tool", Creator: "pergola-image-" + r.version}}},
		Relationships:     b.relations,
	}
	for _, id := range slices.Sorted(maps.Keys(b.packages)) {
		out.Packages = append(out.Packages, b.packages[id])
	}
	return out
}

// program adds a program of a platform, and what it is made of.
func (b *bill) program(r release, p platform, of program) common.ElementID {
	sum := sha256.Sum256(of.content)
	id := b.add(spdx.Package{
		PackageSPDXIdentifier: identify("Program", p.String()+of.path), PackageName: of.path, PackageVersion: r.version,
		PackageFileName: of.path, PrimaryPackagePurpose: application, PackageLicenseDeclared: license, PackageComment: "for " + p.String(),
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}},
		PackageExternalReferences: purl("pkg:golang/" + of.info.Main.Path + "@" + r.version + "#" +
			strings.TrimPrefix(of.info.Path, of.info.Main.Path+"/")),
	})
	for _, m := range of.modules() {
		b.relate(id, dependsOn, b.module(m))
	}
	return id
}

// module adds a module, unless it is there already.
func (b *bill) module(m debug.Module) common.ElementID {
	name := "pkg:golang/" + nameOf(m)
	return b.add(spdx.Package{
		PackageSPDXIdentifier: identify("Module", name), PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: library,
		PackageLicenseDeclared: unknown, PackageLicenseComments: "in the image: " + licensesOf(m), PackageExternalReferences: purl(name),
	})
}

func (b *bill) add(p spdx.Package) common.ElementID {
	p.PackageDownloadLocation, p.PackageLicenseConcluded, p.PackageCopyrightText = unknown, unknown, unknown
	b.packages[p.PackageSPDXIdentifier] = &p
	return p.PackageSPDXIdentifier
}

func (b *bill) relate(from common.ElementID, relation string, to common.ElementID) {
	b.relations = append(b.relations, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: relation, RefB: common.DocElementID{ElementRefID: to},
	})
}

// identify makes an identifier of what may hold characters that identifiers must not.
func identify(kind, name string) common.ElementID {
	sum := sha256.Sum256([]byte(name))
	return common.ElementID(kind + "-" + hex.EncodeToString(sum[:8]))
}

// purl is how scanners know what a package is; see https://github.com/package-url/purl-spec.
func purl(name string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: name}}
}
