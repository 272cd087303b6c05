package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// imageUser is who containers of images that are built here run as.
const imageUser = "65534"

// Image builds a static binary of a package of the main module, such as "./test/images/step", and gives the node an image of this name with
// the binary as its entry point. Containers run it as user 65534, unless their pods say otherwise. No registry has the image, so pods must
// not pull it.
func (n *Node) Image(ctx context.Context, name, pkg string) error {
	return n.image(ctx, name, Root(), pkg)
}

func (n *Node) image(ctx context.Context, name, module, pkg string) (err error) {
	archive, err := n.archive(ctx, name, module, pkg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(archive))) }()
	return n.Import(ctx, archive)
}

// Import gives the node the images of an archive: an OCI layout or a docker-archive.
func (n *Node) Import(ctx context.Context, archive string) error {
	_, err := n.run(ctx, "import", "--dir", n.dir, archive)
	return err
}

// archive makes a docker-archive, in a directory of its own.
func (n *Node) archive(ctx context.Context, name, module, pkg string) (archive string, err error) {
	dir, err := os.MkdirTemp(n.files, "image-")
	if err != nil {
		return "", fmt.Errorf("make directory of image %s: %w", name, err)
	}
	binary, archive := filepath.Join(dir, filepath.Base(pkg)), filepath.Join(dir, "image.tar")
	if err := build(ctx, module, pkg, binary); err != nil {
		return "", err
	}
	_, err = n.run(ctx, "image", "--out", archive, "--name", name, "--user", imageUser, binary)
	return archive, err
}

// clusterModule is the directory of the module test/cluster.
func clusterModule() string { return filepath.Join(Root(), "test", "cluster") }

// build builds a static program of a package of a module.
func build(ctx context.Context, module, pkg, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, module, err, out)
	}
	return nil
}
