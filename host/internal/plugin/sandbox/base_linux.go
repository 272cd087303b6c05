package sandbox

// The files of every confined program. Missing paths are ignored. None is secret: /etc is listed file by file, for it
// also has private keys, /etc/shadow and, in pods, mounted Secrets.
var (
	// baseRead can be read and executed.
	baseRead = []string{
		// Programs and libraries.
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
		// Names of hosts, services and users.
		"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/hostname", "/etc/nsswitch.conf", "/etc/gai.conf",
		"/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group",
		// Certificates of authorities.
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/cacert.pem", "/etc/pki/tls/openssl.cnf",
		"/etc/pki/ca-trust",
		"/etc/crypto-policies",
		// Time, languages, kinds of files.
		"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/mime.types", "/etc/os-release",
		// The process and the machine, with their limits, for language runtimes.
		"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
		"/proc/filesystems", "/proc/sys",
		"/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
	}
	// baseWrite can be written, too.
	baseWrite = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	// baseVariables of the program's environment name readable files and directories; colons separate several.
	baseVariables = []string{"SSL_CERT_FILE", "SSL_CERT_DIR"}
)
