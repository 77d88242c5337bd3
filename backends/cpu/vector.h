#ifndef TEGG_VECTOR_H
#define TEGG_VECTOR_H
#endif
