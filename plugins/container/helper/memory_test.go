package main

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// TestMemoryDoesNotGrow: a state of any size is packed and unpacked with the memory for a few chunks. It runs beside no
// other test of the package, whose memory would count.
// Rule (container.md#for-operators): The memory of `init` and `wait` does not grow with the state.
func TestMemoryDoesNotGrow(t *testing.T) { //nolint:paralleltest // as above
	const size, most = 8, 4 // chunks
	p := newPlace(t)
	p.write(layout.State+"/large", "")
	file, err := os.OpenFile(filepath.Join(p.base, layout.State, "large"), os.O_WRONLY, 0)
	must(t, err)
	_, err = io.CopyN(file, rand.NewChaCha8([32]byte{}), size*layout.ChunkBytes)
	must(t, err)
	must(t, file.Close())
	root, err := os.OpenRoot(filepath.Join(p.base, layout.Shared))
	must(t, err)
	defer root.Close()

	upload := &layout.Upload{State: slices.Repeat([]string{"chunk"}, size+1), MaxExportBytes: 1000}
	var peak uint64
	before := liveBytes()
	report := &layout.Report{}
	err = collectState(root, upload, report, func(document *secret) error {
		if chunk, ok := document.Data[layout.ChunkKey]; ok {
			p.write(filepath.Join(layout.OldState, document.Metadata.Annotations[layout.NumberAnnotation]), string(chunk))
		}
		peak = max(peak, liveBytes())
		return nil
	})
	if err != nil || report.StateChunks != size+1 {
		t.Fatalf("found %+v, error %v", report, err)
	}
	if used := int64(peak) - int64(before); used > most*layout.ChunkBytes {
		t.Errorf("packing %d chunks has held %d bytes", size, used)
	}

	for i := range size + 1 {
		dir := filepath.Join(p.base, layout.OldState)
		must(t, os.Rename(filepath.Join(dir, strconv.Itoa(i)), filepath.Join(dir, layout.ChunkFile(i))))
	}
	before = allocatedBytes()
	found, err := unpack(filepath.Join(p.base, layout.OldState), root, inShared(layout.State))
	if used := allocatedBytes() - before; err != nil || !found || used > most*layout.ChunkBytes {
		t.Errorf("unpacking %d chunks has allocated %d bytes, error %v", size, used, err)
	}
}

// liveBytes is how much memory is in use after a collection.
func liveBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocatedBytes is how much memory was ever allocated.
func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
