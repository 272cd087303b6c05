package sdk

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// InstallArgument makes a plugin that is started by hand copy itself into a plugin directory, when it is the first argument:
//
//	my-deployer install --to /plugins
//
// The file is called as the plugin, or as --as says. With that, an image that holds nothing but the plugin brings it into the
// directory of a host: there is nothing else in it that could copy.
const InstallArgument = "install"

// installMode lets everybody run the file, and nobody write it: the host runs no file that others may write.
const installMode = 0o555

// What hosts take for the list of the plugins that they may run, and its signature.
const (
	lockFile      = "plugins.lock"
	signatureFile = "plugins.lock.minisig"
)

// leftoverAge is how old a copy is that nobody works on any more: it was written to for the last time before that.
const leftoverAge = 10 * time.Minute

// isInstall tells whether the arguments ask for an installation.
func isInstall(args []string) bool { return len(args) > 0 && args[0] == InstallArgument }

// install puts this program into a plugin directory, and returns the code to exit with.
func install(stdout, stderr io.Writer, p *plugin, args []string) (code int) {
	wanted, err := installationOf(args, p.name)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(stdout, "%s %s %s: copies %[1]s into the plugin directory DIR of a host, as %[1]s or NAME\n", p.name, InstallArgument, installUsage)
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v; usage: %[1]s %[3]s %[4]s\n", p.name, err, InstallArgument, installUsage)
		return exitMisconfigured
	}
	program, err := os.Executable()
	if err == nil {
		program, err = wanted.carryOut(program)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v\n", p.name, err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(stdout, "%s %s is installed as %s\n", p.name, p.version, program)
	return 0
}

// installation is what somebody asks for who starts a plugin with InstallArgument.
type installation struct {
	dir  string
	file string
}

const installUsage = "--to DIR [--as NAME]"

// installationOf reads what follows InstallArgument. The error says what was found and what is expected; it is flag.ErrHelp for who asks
// for help.
func installationOf(args []string, plugin string) (installation, error) {
	var i installation
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it would say less than the error does with the usage behind it
	flags.StringVar(&i.dir, "to", "", "")
	flags.StringVar(&i.file, "as", plugin, "")
	if err := flags.Parse(args); err != nil {
		return i, err
	}
	switch {
	case flags.NArg() > 0:
		return i, fmt.Errorf("expected nothing but --to and --as, but found %q", flags.Arg(0))
	case i.dir == "":
		return i, errors.New("--to: expected the plugin directory of a host, but found nothing")
	case i.file == "" || strings.HasPrefix(i.file, ".") || strings.ContainsAny(i.file, "/\x00"):
		return i, fmt.Errorf("--as: expected the bare name of a file that is not hidden, as hosts pass over those, but found %q", i.file)
	case i.file == lockFile || i.file == signatureFile:
		return i, fmt.Errorf("--as: expected the name of a plugin, but hosts take %s for the list of the plugins that they may run; choose another name", i.file)
	default:
		return i, nil
	}
}

// carryOut copies a program into the directory, and returns the path that it has there. Whoever looks into the directory meanwhile, or
// after a crash, finds the file as it was before or as it is to be, and at most a hidden one beside it, which hosts pass over.
func (i installation) carryOut(program string) (path string, err error) {
	info, err := os.Stat(i.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("--to: expected a directory, but found nothing at %s; create it, or mount a volume there", i.dir)
	case err != nil:
		return "", fmt.Errorf("--to: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("--to: expected a directory, but %s is a file; name the directory that the file is to be put into", i.dir)
	}
	path = filepath.Join(i.dir, i.file)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return "", fmt.Errorf("expected a file or nothing at %s, but found a directory; remove it, or choose another name with --as", path)
	}
	prefix := "." + i.file + "."
	if err := removeLeftovers(i.dir, prefix, time.Now().Add(-leftoverAge)); err != nil {
		return "", err
	}
	copied, err := copyOf(program, i.dir, prefix)
	if err != nil {
		return "", err
	}
	if err := os.Rename(copied, path); err != nil {
		return "", errors.Join(fmt.Errorf("put the copy into its place: %w", err), os.Remove(copied))
	}
	return path, nil
}

// removeLeftovers removes the copies of installations that were killed: those with the prefix that nobody has written to since a time.
func removeLeftovers(dir, prefix string, since time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for what is left of earlier installations: %w", err)
	}
	for _, e := range entries {
		number, found := strings.CutPrefix(e.Name(), prefix)
		if !found || strings.Trim(number, "0123456789") != "" {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(since) {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what is left of an earlier installation: %w", err)
		}
	}
	return nil
}

// copyOf copies a program to a new file in a directory, and returns its path. Nothing is left of a copy that fails.
func copyOf(program, dir, prefix string) (path string, err error) {
	source, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("open this program: %w", err)
	}
	defer func() { _ = source.Close() }() // it was only read
	file, err := os.CreateTemp(dir, prefix)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("create a file: %w; user %d, who this is, must be able to write the directory", err, os.Geteuid())
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "", fmt.Errorf("create a file: %w; choose a shorter name with --as", err)
	case err != nil:
		return "", fmt.Errorf("create a file: %w", err)
	}
	_, err = io.Copy(file, source)
	if err == nil {
		err = file.Chmod(installMode) // of a new file the umask has its say as well
	}
	if err == nil {
		err = file.Sync() // or else a crash of the machine may leave an empty file of the right name
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("copy this program to %s: %w", dir, err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}
