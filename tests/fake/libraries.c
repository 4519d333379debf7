/* libraries.c - stands in for cuDNN and cuBLASLt, both in one file, as far as they are opened. There is one of each
 * kind: good, newer, and some that will not do: one lacks functions, one is older, one refuses to start, one does so
 * in the longest words, one has no ear for a stream. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef FAKE_OLDER
enum { VERSION = 89700, LT_VERSION = 120100 };
#elif defined(FAKE_NEWER)
enum { VERSION = 91900, LT_VERSION = 130200 };
#else
enum { VERSION = 91400, LT_VERSION = 130100 };
#endif
#if defined(FAKE_REFUSES) || defined(FAKE_WORDY)
enum { OF_START = 1001 };
#else
enum { OF_START = 0 };
#endif
#ifdef FAKE_WORDY
#define CUDNN_REFUSES    "CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING"
#define CUBLASLT_REFUSES "the required functionality is missing on this architecture, or so it says"
#else
#define CUDNN_REFUSES    "cuDNN refuses"
#define CUBLASLT_REFUSES "cuBLASLt refuses"
#endif
#ifdef FAKE_DEAF
enum { OF_STREAM = 2000 };
#else
enum { OF_STREAM = 0 };
#endif

EXPORT extern int fake_handles; /* that are open */
int fake_handles;

#define FUNCTION(type, name, parameters)                                                                             \
    EXPORT type name parameters;                                                                                     \
    type name parameters
/* What is looked for, and not called. */
#define NOT_CALLED(name)                                                                                             \
    FUNCTION(int, name, (void))                                                                                      \
    {                                                                                                                \
        return 0;                                                                                                    \
    }

static int create(void **handle)
{
    *handle = &fake_handles;
    fake_handles += OF_START == 0;
    return OF_START;
}

static int destroy(void *handle)
{
    fake_handles -= handle == &fake_handles;
    return 0;
}

/* --- cuDNN ----------------------------------------------------------------------------------------------------- */

FUNCTION(size_t, cudnnGetVersion, (void))
{
    return VERSION;
}

FUNCTION(const char *, cudnnGetErrorString, (int status))
{
    return status == OF_START ? CUDNN_REFUSES : "cuDNN is deaf";
}

FUNCTION(int, cudnnCreate, (void **handle))
{
    return create(handle);
}

FUNCTION(int, cudnnDestroy, (void *handle))
{
    return destroy(handle);
}

FUNCTION(int, cudnnSetStream, (void *handle, void *stream))
{
    (void)handle;
    (void)stream;
    return OF_STREAM;
}

NOT_CALLED(cudnnBackendCreateDescriptor)
NOT_CALLED(cudnnBackendDestroyDescriptor)
NOT_CALLED(cudnnBackendSetAttribute)
NOT_CALLED(cudnnBackendGetAttribute)
NOT_CALLED(cudnnBackendFinalize)
NOT_CALLED(cudnnBackendExecute)

/* --- cuBLASLt -------------------------------------------------------------------------------------------------- */

FUNCTION(size_t, cublasLtGetVersion, (void))
{
    return LT_VERSION;
}

FUNCTION(const char *, cublasLtGetStatusString, (int status))
{
    return status == OF_START ? CUBLASLT_REFUSES : "another";
}

FUNCTION(int, cublasLtCreate, (void **handle))
{
    return create(handle);
}

FUNCTION(int, cublasLtDestroy, (void *handle))
{
    return destroy(handle);
}

NOT_CALLED(cublasLtMatmulDescCreate)
NOT_CALLED(cublasLtMatmulDescDestroy)
NOT_CALLED(cublasLtMatmulDescSetAttribute)
NOT_CALLED(cublasLtMatrixLayoutCreate)
NOT_CALLED(cublasLtMatrixLayoutDestroy)
NOT_CALLED(cublasLtMatmulPreferenceCreate)
NOT_CALLED(cublasLtMatmulPreferenceDestroy)
NOT_CALLED(cublasLtMatmulPreferenceSetAttribute)
NOT_CALLED(cublasLtMatmulAlgoGetHeuristic)
NOT_CALLED(cublasLtMatmulAlgoCheck)

#ifndef FAKE_LACKS
NOT_CALLED(cudnnGetLastErrorString)
NOT_CALLED(cublasLtMatmul)
#endif
