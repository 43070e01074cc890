// Reads all blocks of a raster some times, with a number of threads that each have the file open, as fast as C can:
// baseline LIBRARY FILE BLOCK THREADS ROUNDS prints seconds and those of processors.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static void *(*open_raster)(const char *, unsigned, const void *, const void *, const void *);
static int (*raster_io)(void *, int, int, int, int, int, void *, int, int, int, int, int *, long long, long long, long long, void *);
static int (*width_of)(void *), (*height_of)(void *), (*bands_of)(void *);
static void (*reset)(void);

static const char *path;
static int block, rounds;
static atomic_int next;

static void *reader(void *unused) {
	void *d = open_raster(path, 2, 0, 0, 0);
	if (!d) exit(1);
	int w = width_of(d), h = height_of(d), bands = bands_of(d), list[64];
	for (int i = 0; i < bands; i++) list[i] = i + 1;
	int across = (w + block - 1) / block, down = (h + block - 1) / block;
	char *buf = malloc((size_t)block * block * bands * 2);
	for (int n; (n = atomic_fetch_add(&next, 1)) < across * down * rounds;) {
		int col = n % (across * down) % across * block, row = n % (across * down) / across * block;
		int bw = w - col < block ? w - col : block, bh = h - row < block ? h - row : block;
		reset();
		if (raster_io(d, 0, col, row, bw, bh, buf, bw, bh, 2, bands, list, 2, 2LL * bw, 2LL * bw * bh, 0)) exit(1);
	}
	free(buf);
	return unused;
}

static double cpu(void) {
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
	if (argc != 6) return 2;
	void *lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) return 1;
	*(void **)&open_raster = dlsym(lib, "GDALOpenEx");
	*(void **)&raster_io = dlsym(lib, "GDALDatasetRasterIOEx");
	*(void **)&width_of = dlsym(lib, "GDALGetRasterXSize");
	*(void **)&height_of = dlsym(lib, "GDALGetRasterYSize");
	*(void **)&bands_of = dlsym(lib, "GDALGetRasterCount");
	*(void **)&reset = dlsym(lib, "CPLErrorReset");
	((void (*)(void))dlsym(lib, "GDALAllRegister"))();
	((void (*)(long long))dlsym(lib, "GDALSetCacheMax64"))(32 << 20);
	path = argv[2], block = atoi(argv[3]), rounds = atoi(argv[5]);
	int threads = atoi(argv[4]);
	pthread_t t[64];
	struct timespec a, b;
	double before = cpu();
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < threads; i++) pthread_create(&t[i], 0, reader, 0);
	for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.9f %.9f\n", b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9, cpu() - before);
}
