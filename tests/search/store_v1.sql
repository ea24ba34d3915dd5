-- A store of the first version, as a search wrote it; one parent was set by hand.
BEGIN TRANSACTION;
CREATE TABLE definition(hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "definition" VALUES('3331246c76ea305446841d42e4a5eb6a','operator add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    Y = X + 1
    case ragged { N=33; X: normal(0, 1) }
    case large { N=30000; X: normal(0, 1) }
}

');
CREATE TABLE result(sketch TEXT NOT NULL, target TEXT NOT NULL, device TEXT NOT NULL, case_name TEXT NOT NULL, status TEXT NOT NULL, complete INTEGER NOT NULL, seconds REAL NOT NULL, noise REAL NOT NULL, PRIMARY KEY(sketch, target, device, case_name)) WITHOUT ROWID;
INSERT INTO "result" VALUES('46b9b7f32fff11fdfe4367366afcd0fb','openmp','x86-64-v4','large','ok',0,4.18672580000247762654e-02,9.59337162707562196573e-01);
INSERT INTO "result" VALUES('4c2ab7258484ae690a1ce4a7b7911b33','openmp','x86-64-v4','large','hang',0,0.0,0.0);
INSERT INTO "result" VALUES('5ab0353970a398f7aff3daf85b46a689','openmp','x86-64-v4','large','ok',0,6.14890049999985421891e-02,4.57556525755940524113e-01);
INSERT INTO "result" VALUES('6a43934c9c17307b95ee8aacb9b19d03','openmp','x86-64-v4','large','ok',0,4.92519279999896752997e-02,0.9620638241825);
INSERT INTO "result" VALUES('ba850bc7c3d78139d1bb254f6fa184e9','openmp','x86-64-v4','large','ok',0,3.81195129999696291633e-02,9.35386713887048637516e-01);
INSERT INTO "result" VALUES('ef4973c3ffeee0965937505b68abe463','openmp','x86-64-v4','large','ok',1,3.16984009999714544392e-02,2.7312622236105159601e+00);
INSERT INTO "result" VALUES('f5fbb79a64282d1a2ca61e2b3ef1d47f','openmp','x86-64-v4','large','hang',0,0.0,0.0);
CREATE TABLE sketch(hash TEXT PRIMARY KEY, definition TEXT NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL, parent TEXT) WITHOUT ROWID;
INSERT INTO "sketch" VALUES('46b9b7f32fff11fdfe4367366afcd0fb','3331246c76ea305446841d42e4a5eb6a','sketch add_one_naive implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;

    t0 = alloc([N], dtype=f32)
    load(X[:] -> t0)
    t1 = t0 + 1.0
    store(t1 -> Y[:])
}
','naive',NULL);
INSERT INTO "sketch" VALUES('4c2ab7258484ae690a1ce4a7b7911b33','3331246c76ea305446841d42e4a5eb6a','sketch add_one_columns implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 256;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','columns',NULL);
INSERT INTO "sketch" VALUES('5ab0353970a398f7aff3daf85b46a689','3331246c76ea305446841d42e4a5eb6a','sketch add_one_bands implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 8;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','bands','46b9b7f32fff11fdfe4367366afcd0fb');
INSERT INTO "sketch" VALUES('6a43934c9c17307b95ee8aacb9b19d03','3331246c76ea305446841d42e4a5eb6a','sketch add_one_blocks implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 64;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','blocks',NULL);
INSERT INTO "sketch" VALUES('ba850bc7c3d78139d1bb254f6fa184e9','3331246c76ea305446841d42e4a5eb6a','sketch add_one_chunks implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 128;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','chunks',NULL);
INSERT INTO "sketch" VALUES('ef4973c3ffeee0965937505b68abe463','3331246c76ea305446841d42e4a5eb6a','sketch add_one_rows implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 512;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','rows',NULL);
INSERT INTO "sketch" VALUES('f5fbb79a64282d1a2ca61e2b3ef1d47f','3331246c76ea305446841d42e4a5eb6a','sketch add_one_squares implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    constexpr: T0 = 32;

    @llm_hint("parallel", "coreidx")
    for i0 in range(0, ceil(N, T0)):
        t0 = alloc([T0], dtype=f32)
        load(X[i0*T0:(i0+1)*T0] -> t0)
        t1 = t0 + 1.0
        store(t1 -> Y[i0*T0:(i0+1)*T0])
}
','squares',NULL);
COMMIT;
PRAGMA user_version=1;
