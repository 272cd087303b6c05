package charts

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

const (
	// bombBytes are the zeros in a bomb.
	bombBytes = 1 << 30
	// sparseBytes is how large a file says it is that has nothing but a hole.
	sparseBytes = 1 << 40
	// manyFiles are more than any chart has.
	manyFiles = 12_000
	// nestedDeep and nestedWide are how deep sub-charts are nested that have one sub-chart or ten.
	nestedDeep = 64
	nestedWide = 9
)

// archiveKinds are archives that are wrong before a file of theirs is looked at.
var archiveKinds = []hostile{
	{"zip-bomb", Unpacking, func() []byte { return zeros("bomb/files/zeros", bombBytes) }},
	{"zip-bomb-members", Unpacking, memberBomb},
	{"sparse-bomb", Unpacking, sparseBomb},
	{"nested-bomb", Unpacking, nestedBomb},
	{"nested-deep", Unpacking, func() []byte { return subCharts(nestedDeep, 1) }},
	// 10^9 charts.
	{"nested-wide", Unpacking, func() []byte { return subCharts(nestedWide, 10) }},
	{"many-files", Unpacking, withMany},
	{"path-traversal", Unpacking, withFile("plain/../../../../tmp/evil")},
	{"path-traversal-inside", Unpacking, withFile("plain/templates/../../../evil")},
	{"path-traversal-backslash", Unpacking, withFile(`plain\..\..\evil`)},
	{"path-absolute", Unpacking, withFile("/etc/cron.d/evil")},
	{"path-absolute-inside", Unpacking, withFile("plain//etc/cron.d/evil")},
	{"path-drive", Unpacking, withFile(`plain\c:\evil`)},
	{"path-base", Unpacking, withFile("evil")},
	{"path-dot", Unpacking, withFile("plain/.")},
	{"path-long", Unpacking, withFile("plain/" + strings.Repeat("a/", 100_000) + "evil")},
	{"path-invalid-utf8", Unpacking, withFile("plain/templates/\xff\xfe.yaml")},
	{"path-control", Unpacking, withFile("plain/templates/\x1b[2J\n.yaml")},
	{"symlink", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/templates/evil.yaml", Linkname: "/etc/passwd"})},
	{"symlink-folder", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/charts", Linkname: "/etc"})},
	{"symlink-lock", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/Chart.lock", Linkname: "/tmp/evil"})},
	{"hard-link", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeLink, Name: "plain/templates/evil.yaml", Linkname: "/etc/passwd"})},
	{"device", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeChar, Name: "plain/templates/evil.yaml", Devmajor: 1, Devminor: 5})},
	{"block-device", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeBlock, Name: "plain/templates/evil.yaml", Devmajor: 8})},
	{"fifo", Unpacking, withEntry(tar.Header{Typeflag: tar.TypeFifo, Name: "plain/templates/evil.yaml"})},
	{"empty", Unpacking, func() []byte { return nil }},
	{"no-files", Unpacking, func() []byte { return newArchive(gzip.BestCompression).bytes() }},
	{"no-gzip", Unpacking, func() []byte { return []byte("apiVersion: v2\nname: plain\nversion: 1.0.0\n") }},
	{"no-tar", Unpacking, func() []byte { return zipped([]byte(strings.Repeat("this is no tar. ", 100))) }},
	{"truncated", Unpacking, func() []byte { b := Pack("plain"); return b[:len(b)/2] }},
	{"truncated-tar", Unpacking, truncatedTar},
	{"checksum", Unpacking, wrongChecksum},
}

// withFile is the chart plain with another file.
func withFile(name string) func() []byte {
	return withEntry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644})
}

// withEntry is the chart plain with another entry of its archive.
func withEntry(header tar.Header) func() []byte {
	return func() []byte {
		a := newArchive(gzip.BestCompression)
		a.plain()
		var content []byte
		if header.Typeflag == tar.TypeReg {
			content = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: evil\n")
		}
		own := header // which entry changes
		a.entry(&own, content)
		return a.bytes()
	}
}

// plain writes the files of the chart plain.
func (a *archive) plain() {
	s := read("plain")
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		a.file("plain/"+name, s.files[name])
	}
}

func withMany() []byte {
	a := newArchive(gzip.BestSpeed)
	a.plain()
	for i := range manyFiles {
		a.file(fmt.Sprintf("plain/files/%06d", i), nil)
	}
	return a.bytes()
}

func chartOf(name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: 1.0.0\n", name)
}

// subCharts is a chart with some sub-charts, packed, which have as many each, and so on.
func subCharts(deep, wide int) []byte {
	chart := Pack("plain")
	for range deep {
		a := newArchive(gzip.BestSpeed)
		a.file("nested/"+metadataFile, chartOf("nested"))
		for i := range wide {
			a.file(fmt.Sprintf("nested/charts/plain-%d.tgz", i), chart)
		}
		chart = a.bytes()
	}
	return chart
}

// nestedBomb is a bomb in sub-charts, which is some kilobytes only: what a bomb is packed to is as monotonous as what is in it.
func nestedBomb() []byte {
	chart := zeros("bomb/files/zeros", bombBytes)
	for range 2 {
		a := newArchive(gzip.BestCompression)
		a.file("nested/"+metadataFile, chartOf("nested"))
		a.file("nested/charts/bomb-1.0.0.tgz", chart)
		chart = a.bytes()
	}
	return chart
}

// zeros is a chart with a file of so many zeros, whole mebibytes. One mebibyte is packed and repeated, since packing all would take seconds.
func zeros(name string, size int64) []byte {
	head, block, trailer := tarAround(name, size), make([]byte, 1<<20), make([]byte, 1024)
	out := bytes.NewBuffer([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff})
	sum := crc32.NewIEEE()
	out.Write(deflated(head, false))
	_, _ = sum.Write(head) // never fails
	packed := deflated(block, false)
	for range size >> 20 {
		out.Write(packed)
		_, _ = sum.Write(block)
	}
	out.Write(deflated(trailer, true))
	_, _ = sum.Write(trailer)
	length := int64(len(head)) + size + int64(len(trailer))
	end := binary.LittleEndian.AppendUint32(nil, sum.Sum32())
	out.Write(binary.LittleEndian.AppendUint32(end, uint32(length&0xffffffff))) // gzip has it modulo 2^32
	return out.Bytes()
}

// memberBomb is a bomb of many gzip members, one after the other, as programs unpack them that look at the first one's size only.
func memberBomb() []byte {
	out := bytes.NewBuffer(zipped(tarAround("bomb/files/zeros", bombBytes)))
	member := zipped(make([]byte, 1<<20))
	for range bombBytes >> 20 {
		out.Write(member)
	}
	out.Write(zipped(make([]byte, 1024)))
	return out.Bytes()
}

// tarAround is the tar of a chart up to the content of its last file.
func tarAround(name string, size int64) []byte {
	b := &bytes.Buffer{}
	t := tar.NewWriter(b)
	chart := chartOf("bomb")
	must(t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb/" + metadataFile, Size: int64(len(chart)), ModTime: modTime}))
	_, err := t.Write(chart)
	must(err)
	must(t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, ModTime: modTime}))
	return b.Bytes()
}

// sparseBomb is a chart with a file that is one large hole. Go's tar reads such files and does not write them, so the records that say it
// are written as a file of their own, whose type is changed after that.
func sparseBomb() []byte {
	var records []byte
	for _, r := range []struct{ key, value string }{
		{"GNU.sparse.major", "0"},
		{"GNU.sparse.minor", "1"},
		{"GNU.sparse.name", "bomb/files/hole"},
		{"GNU.sparse.size", fmt.Sprint(int64(sparseBytes))},
		{"GNU.sparse.numblocks", "1"},
		{"GNU.sparse.map", "0,0"},
	} {
		records = append(records, record(r.key, r.value)...)
	}
	b := &bytes.Buffer{}
	t := tar.NewWriter(b)
	chart := chartOf("bomb")
	must(t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb/" + metadataFile, Size: int64(len(chart)), ModTime: modTime}))
	_, err := t.Write(chart)
	must(err)
	must(t.Flush())
	extended := b.Len()
	must(t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/records", Size: int64(len(records)), ModTime: modTime}))
	_, err = t.Write(records)
	must(err)
	must(t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/hole", ModTime: modTime}))
	must(t.Close())
	retype(b.Bytes()[extended:extended+512], tar.TypeXHeader)
	return zipped(b.Bytes())
}

// record is one of the records that extend a header. Its length counts its own digits.
func record(key, value string) string {
	size := len(key) + len(value) + 3 // a space, an equals sign and a newline
	for digits := 1; ; digits++ {
		if length := fmt.Sprint(size + digits); len(length) == digits {
			return fmt.Sprintf("%s %s=%s\n", length, key, value)
		}
	}
}

// retype changes the type of a header and puts its checksum right.
func retype(header []byte, typeflag byte) {
	const sumAt, sumEnd, typeAt = 148, 156, 156
	header[typeAt] = typeflag
	copy(header[sumAt:sumEnd], "        ")
	sum := 0
	for _, c := range header {
		sum += int(c)
	}
	copy(header[sumAt:sumEnd], fmt.Sprintf("%06o\x00 ", sum))
}

// truncatedTar ends in the middle of a file, and says nothing of it.
func truncatedTar() []byte {
	return zipped(append(tarAround("bomb/files/zeros", 1<<20), make([]byte, 1000)...))
}

// wrongChecksum is the chart plain with something wrong in it that only the checksum of the archive tells.
func wrongChecksum() []byte {
	b := Pack("plain")
	b[len(b)-8] ^= 0xff
	return b
}

func zipped(content []byte) []byte {
	b := &bytes.Buffer{}
	w := gzip.NewWriter(b)
	_, err := w.Write(content)
	must(err)
	must(w.Close())
	return b.Bytes()
}

// deflated packs a part of a stream, or its end. It refers to nothing before it, so that it can be repeated.
func deflated(content []byte, final bool) []byte {
	b := &bytes.Buffer{}
	w, err := flate.NewWriter(b, flate.BestCompression)
	must(err)
	_, err = w.Write(content)
	must(err)
	if final {
		must(w.Close())
	} else {
		must(w.Flush())
	}
	return b.Bytes()
}
