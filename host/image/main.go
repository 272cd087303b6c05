package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rootsModule has the certificates that are put into images.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// options are what the command line says.
type options struct {
	programs, license, out, licenses string
	platforms                        []platform
	release                          release
	push                             string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.programs, "programs", "bin/image/programs",
		"directory with the programs of each platform, as linux/amd64/pergola and linux/amd64/plugins/helm")
	flags.StringVar(&o.license, "license", "LICENSE", "file with the license, which is put into the images")
	flags.StringVar(&o.out, "out", "bin/image", "directory for the archives and the SBOMs")
	flags.StringVar(&o.licenses, "licenses", "", "directory for the licenses of each image, as pergola/licenses, which are written there instead of images")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms of the images")
	flags.StringVar(&o.release.version, "version", "", "version, which is the images' tag (required)")
	flags.StringVar(&o.release.revision, "revision", "", "commit that the programs were built from")
	created := flags.String("created", "0", "seconds since 1970 until that commit: the images' date")
	flags.StringVar(&o.push, "push", "", "where to push the images to, such as registry.example.org/team; empty for nowhere")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("expected nothing but flags, but found %q", flags.Arg(0))
	}
	if o.release.version == "" {
		return o, errors.New("--version: expected a version, but found nothing")
	}
	seconds, err := strconv.ParseInt(*created, 10, 64)
	if err != nil {
		return o, fmt.Errorf("--created: expected seconds since 1970, but found %q", *created)
	}
	o.release.created = time.Unix(seconds, 0)
	if o.platforms, err = parsePlatforms(*platforms); err != nil {
		return o, fmt.Errorf("--platforms: %w", err)
	}
	return o, nil
}

// run makes the images, writes them, and pushes them if it is to. With --licenses it writes their licenses instead.
func run(ctx context.Context, o options) error {
	license, err := os.ReadFile(o.license)
	if err != nil {
		return fmt.Errorf("read license: %w", err)
	}
	roots, err := builtWith(rootsModule)
	if err != nil {
		return err
	}
	for _, d := range definitions(license, roots) {
		variants, err := o.read(ctx, d)
		switch {
		case err != nil:
		case o.licenses != "":
			err = unpackLicenses(variants, filepath.Join(o.licenses, d.name))
		default:
			err = o.publish(ctx, d, variants)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", d.name, err)
		}
	}
	return nil
}

// publish makes an image, writes it, and pushes it if it is to.
func (o options) publish(ctx context.Context, d definition, variants []variant) error {
	if err := o.build(d, variants); err != nil || o.push == "" {
		return err
	}
	repository := strings.TrimSuffix(o.push, "/") + "/" + d.name
	pushed, err := push(ctx, o.archive(d), repository, o.release.version)
	if err == nil {
		fmt.Printf("%s:%s@%s\n", repository, o.release.version, pushed.Digest) //nolint:forbidigo // what is to be deployed
	}
	return err
}

func (o options) archive(d definition) string { return filepath.Join(o.out, d.name+".tar") }

// read reads what goes into an image.
func (o options) read(ctx context.Context, d definition) (variants []variant, err error) {
	for _, p := range o.platforms {
		v, err := readPrograms(o.programs, d, p)
		if err != nil {
			return nil, err
		}
		if v.licenses, err = readLicenses(ctx, slices.Concat(d.data, v.modules())); err != nil {
			return nil, err
		}
		variants = append(variants, v)
	}
	return variants, nil
}

// build makes an image and writes it, with its SBOM beside it.
func (o options) build(d definition, variants []variant) error {
	i, err := assemble(d, o.release, variants)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // what is built is for everybody
		return fmt.Errorf("create directory for the images: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, d.name+".spdx.json"), i.sbom.content, 0o644); err != nil {
		return fmt.Errorf("write SBOM: %w", err)
	}
	file, err := os.Create(o.archive(d)) //nolint:gosec // where it goes is the caller's to say
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return errors.Join(i.write(file, d.name, o.release.version), file.Close())
}

// builtWith returns a module that this program was built with.
func builtWith(path string) (debug.Module, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return debug.Module{}, errors.New("this program does not know what it was built of; run it by go run")
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return *m, nil
		}
	}
	return debug.Module{}, fmt.Errorf("this program was built without %s", path)
}
